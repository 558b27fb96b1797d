package worker

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Doorbell lets one loop wake another one before a watch does. Nobody hears it before the loop
// that it belongs to has started. It is safe for use by several goroutines.
type Doorbell struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start implements source.Source.
func (d *Doorbell) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = queue
	return nil
}

// Ring has the loop look at the object of this name.
func (d *Doorbell) Ring(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue != nil {
		d.queue.Add(Request(name))
	}
}
