package maintenance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
)

// hanging is a Drainer whose evictions get no answer before they are let go on.
type hanging struct {
	Drainer
	answer chan struct{}
}

func (h hanging) Pass(ctx context.Context, _ string, _ *v1alpha1.Drain, _ bool) (drain.Result, error) {
	select {
	case <-h.answer:
		return left(1), nil
	case <-ctx.Done():
		return drain.Result{}, ctx.Err()
	}
}

func TestEvictionsThatHangLeaveWorkersForNodesThatAreGivenBack(t *testing.T) {
	if workers <= drains {
		t.Fatalf("%d workers, and %d nodes are drained at the same time", workers, drains)
	}
	synctest.Test(t, func(t *testing.T) {
		s := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		nodes := make([]string, drains+2)
		builder := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&v1alpha1.NodeMaintenance{})
		for i := range nodes {
			nodes[i] = fmt.Sprint("w", i)
			m := toDrain(v1alpha1.OnTimeoutWait)
			m.Name, m.Spec.NodeName = nodes[i], nodes[i]
			look(m, "u", 0, left(4))
			builder.WithObjects(m)
		}
		c := builder.Build()
		h := hanging{answer: make(chan struct{})}
		r := &Reconciler{Client: c, Live: c, Drainer: h, Clock: clocktesting.NewFakePassiveClock(start), Events: events.NewFakeRecorder(100)}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		if err := r.Loop().Doorbell.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		var ended atomic.Int32
		progress := func(name string) {
			var m v1alpha1.NodeMaintenance
			if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &m); err != nil {
				t.Error(err)
			}
			node := nodeWith(true, nil)
			node.Name, node.UID = name, "u"
			if wait, err := r.progress(t.Context(), &m, node, cordonedByUs); err != nil || wait <= 0 {
				t.Errorf("node %s: look again after %s, %v", name, wait, err)
			}
			ended.Add(1)
		}
		for _, node := range nodes[:drains] {
			go progress(node)
		}
		synctest.Wait()
		for _, node := range nodes[drains:] {
			progress(node) // at once
			progress(node)
		}
		if n := ended.Load(); n != 4 || queue.Len() != 0 {
			t.Fatalf("%d looks have ended, %d nodes are to be looked at", n, queue.Len())
		}
		h.answer <- struct{}{}
		synctest.Wait()
		if next, _ := queue.Get(); next.Name != nodes[drains] || queue.Len() != 0 {
			t.Fatalf("%s is looked at next, and %d more", next.Name, queue.Len())
		}
		go progress(nodes[drains])
		close(h.answer)
		synctest.Wait()
		if n := ended.Load(); n != drains+5 {
			t.Errorf("%d looks have ended", n)
		}
		if next, _ := queue.Get(); next.Name != nodes[drains+1] {
			t.Errorf("%s is looked at next", next.Name)
		}
	})
}
