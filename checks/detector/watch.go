package detector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/bounded"
)

const (
	lookInterval = 30 * time.Second
	lookTimeout  = 10 * time.Second
	// stuckLooks in a row without progress are the end.
	stuckLooks = 3
)

// errStuck is why a detector ends that makes no progress.
var errStuck = errors.New("the detector makes no progress and ends, to be started anew")

// watched returns what comes from ended, or errStuck if look finds the detector without
// progress several times in a row: what hangs would not end. It does for the detector
// what a liveness probe would, but nobody else can have it killed by taking or crowding
// a port.
func watched(ctx context.Context, ended <-chan error, look func() error) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for failed := 0; ; {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
		err := answer(look)
		if err == nil {
			failed = 0
			continue
		}
		failed++
		if failed == stuckLooks {
			return fmt.Errorf("%w: %w", errStuck, err)
		}
		klog.FromContext(ctx).Error(err, "The detector makes no progress", "looks", failed, "endsAt", stuckLooks)
	}
}

// answer is what look returns, or an error if that itself hangs.
func answer(look func() error) error {
	err, late := bounded.Within(clock.RealClock{}, lookTimeout, look)
	if late != nil {
		return fmt.Errorf("whether it does could not be told within %s", lookTimeout)
	}
	return err
}
