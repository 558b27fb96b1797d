package exporter

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/statefile"
)

const (
	// saveRetry is when a failed write of the state file is repeated.
	saveRetry = time.Minute
	// saveGrace is how long a write that is under way is waited for at the end:
	// a disk that hangs must not keep the detector from ending.
	saveGrace = time.Second
)

// startSaving keeps the state file up to date, beside all else since the disk may
// hang. The returned function ends that.
func (e *Exporter) startSaving(ctx context.Context) (stop func()) {
	if e.options.StateFile == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var saving sync.WaitGroup
	saving.Go(func() {
		for e.awaitChange(ctx) {
			e.save(ctx)
		}
		e.save(ctx)
	})
	return func() {
		cancel()
		saved := make(chan struct{})
		go func() {
			saving.Wait()
			close(saved)
		}()
		select {
		case <-saved:
		case <-e.options.Clock.After(saveGrace):
			klog.FromContext(ctx).Info("Writing the state file is abandoned at shutdown: it does not return", "file", e.options.StateFile)
		}
	}
}

// awaitChange returns true when the file is to be written, false at the end.
func (e *Exporter) awaitChange(ctx context.Context) bool {
	retry := e.options.Clock.NewTimer(saveRetry)
	defer retry.Stop()
	select {
	case <-e.changed:
		return true
	case <-retry.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// save writes the file if there is anything new.
func (e *Exporter) save(ctx context.Context) {
	e.mu.Lock()
	dirty, uid := e.state.dirty, e.state.uid
	if uid == "" {
		uid = e.state.fileUID
	}
	state := statefile.State{
		NodeName: e.options.NodeName, NodeUID: uid, Conditions: e.state.snapshot(), SeenThere: e.state.seenThere(),
	}
	e.state.dirty = false
	e.mu.Unlock()
	if !dirty {
		return
	}
	err := statefile.Save(e.options.StateFile, state)
	if err != nil {
		e.metrics.saveFailed.Set(1)
		klog.FromContext(ctx).Error(err, "The state is not kept across restarts", "retryAfter", saveRetry.String())
		e.mu.Lock()
		e.state.dirty = true
		e.mu.Unlock()
		return
	}
	e.metrics.saveFailed.Set(0)
}
