package detector

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/statefile"
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
	loaded := make(chan result, 1)
	go func() {
		state, err := load()
		loaded <- result{state, err}
	}()
	limit := time.NewTimer(restoreTimeout)
	defer limit.Stop()
	select {
	case r := <-loaded:
		if r.err != nil && !errors.Is(r.err, fs.ErrNotExist) {
			klog.FromContext(ctx).Error(r.err, "The state of an earlier run is left aside")
		}
		return r.state, nil
	case <-limit.C:
		klog.FromContext(ctx).Error(nil, "The state of an earlier run is left aside: reading its file hangs; see whether its disk answers",
			"file", path, "waited", restoreTimeout.String())
		return statefile.State{}, nil
	case <-ctx.Done():
		return statefile.State{}, ctx.Err()
	}
}
