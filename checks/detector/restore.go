package detector

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/statefile"
	"github.com/nodemend/nodemend/internal/bounded"
)

// restoreTimeout is for how long the state file is waited for: its disk may hang.
const restoreTimeout = 10 * time.Second

// restore returns what load reads from the state file at path. Without a good one
// the detector works as well, as long as the API server answers. It fails if ctx ends
// first.
func restore(ctx context.Context, path string, load func() (statefile.State, error)) (statefile.State, error) {
	if path == "" {
		return statefile.State{}, nil
	}
	type result struct {
		state statefile.State
		err   error
	}
	r, err := bounded.Call(ctx, clock.RealClock{}, restoreTimeout, func() result {
		state, err := load()
		return result{state, err}
	})
	switch {
	case errors.Is(err, bounded.ErrLate):
		klog.FromContext(ctx).Error(nil, "The state of an earlier run is left aside: reading its file hangs; see whether its disk answers",
			"file", path, "waited", restoreTimeout.String())
	case err != nil:
		return statefile.State{}, err
	case r.err != nil && !errors.Is(r.err, fs.ErrNotExist):
		klog.FromContext(ctx).Error(r.err, "The state of an earlier run is left aside")
	}
	return r.state, nil
}
