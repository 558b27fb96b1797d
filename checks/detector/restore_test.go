package detector

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/statefile"
)

func TestAStateFileThatHangsIsNotWaitedForForLong(t *testing.T) {
	for name, tc := range map[string]struct {
		takes   time.Duration // to read the file
		err     error
		stop    time.Duration // when the detector is stopped; 0: it is not
		waits   time.Duration
		found   bool
		stopped bool
	}{
		"at once":           {found: true},
		"slow":              {takes: 9 * time.Second, waits: 9 * time.Second, found: true},
		"none":              {err: fs.ErrNotExist},
		"damaged":           {err: errors.New("no valid JSON")},
		"hangs":             {takes: time.Hour, waits: restoreTimeout},
		"hangs, is stopped": {takes: time.Hour, stop: time.Second, waits: time.Second, stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				defer stop()
				if tc.stop > 0 {
					time.AfterFunc(tc.stop, stop)
				}
				began := time.Now()
				state, err := restore(ctx, "state.json", func() (statefile.State, error) {
					time.Sleep(tc.takes)
					if tc.err != nil {
						return statefile.State{}, tc.err
					}
					return statefile.State{NodeName: "worker-1"}, nil
				})
				if (err != nil) != tc.stopped {
					t.Errorf("error %v", err)
				}
				if (state.NodeName != "") != tc.found {
					t.Errorf("found %+v", state)
				}
				if waited := time.Since(began); waited != tc.waits {
					t.Errorf("waited %s, want %s", waited, tc.waits)
				}
				time.Sleep(time.Hour) // what hangs ends
			})
		})
	}
}
