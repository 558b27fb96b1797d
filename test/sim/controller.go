package sim

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/controller"
	"github.com/nodemend/nodemend/controller/drain"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/test/apiserver"
)

// startController starts one that leads, whether or not others do.
func (w *world) startController() {
	w.controllers++
	p := w.newProcess(fmt.Sprintf("controller-%d", w.controllers), "controller", nil)
	w.say(p.name, "starts and leads")
	w.trouble(time.Now())
	if err := w.wireController(p); err != nil {
		w.broken("the simulation", "starting a controller: %v", err)
	}
}

func (w *world) wireController(p *process) error {
	metrics, err := remediation.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	for _, kind := range []client.Object{
		&corev1.Node{}, &v1alpha1Policy, &v1alpha1Budget, &v1alpha1Remediation, &v1alpha1Action, &v1alpha1Maintenance, &v1alpha1Request,
	} {
		if err := p.view.Watch(kind, controller.Transform(kind)); err != nil {
			return err
		}
		p.watches = append(p.watches, &watch{kind: kind})
	}
	if err := index.Register(p.ctx, p.view); err != nil {
		return err
	}
	loops := controller.Loops(controller.Parts{
		Client: p.client.Cached(p.view), Live: p.client, Clock: p.corrected(), Metrics: metrics, Events: events{w},
		Nodes: func() ([]*corev1.Node, string) {
			return sorted(apiserver.All[*corev1.Node](p.view)), p.view.Version(&corev1.Node{})
		},
		Store:        index.Read(p.view),
		Drainer:      drain.NewFor(pods{p.client}, p.corrected()),
		Driven:       true,
		Leases:       true,
		HistoryLimit: w.profile.historyLimit, HistoryAge: controller.DefaultHistoryAge,
	})
	for _, l := range loops {
		p.add(l)
	}
	for _, watch := range p.watches {
		w.relist(p, watch)
	}
	return nil
}

// corrected returns the process's clock, corrected by the server's.
func (p *process) corrected() *serverclock.Clock {
	if p.server == nil {
		p.server = serverclock.New(p.clock)
		p.answered = p.server.Wrap(dated{})
	}
	return p.server
}

// learn lets the process learn the server's time from an answer.
func (p *process) learn() {
	if p.server == nil || p.server.Answered() && p.clock.offset == 0 && p.server.Offset() == 0 {
		return // that is quick, and there is nothing to be learned
	}
	before := p.server.Now()
	if response, err := p.answered.RoundTrip(&http.Request{}); err == nil {
		_ = response.Body.Close()
	}
	if p.leads() && p.server.Now().Sub(before).Abs() > clockSlack {
		p.world.skewed = time.Now()
	}
}

// dated answers with the server's time.
type dated struct{}

// RoundTrip implements http.RoundTripper.
func (dated) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: http.NoBody}, nil
}

// add adds a loop of the controller.
func (p *process) add(l worker.Loop) {
	mine := &loop{process: p, name: l.Name, workers: l.Workers, queue: newQueue(p.world.turn)}
	mine.look = func(ctx context.Context, name string) (reconcile.Result, error) {
		request := reconcile.Request{}
		request.Name = name
		return l.Reconciler.Reconcile(ctx, request)
	}
	p.loops = append(p.loops, mine)
	if l.Doorbell != nil {
		_ = l.Doorbell.Start(p.ctx, mine.queue) // never fails
	}
	for _, source := range l.Watches {
		for _, watch := range p.watches {
			if sameType(watch.kind, source.Kind) {
				watch.told = then(watch.told, func(step apiserver.Step) { tell(p.ctx, source, step, mine.queue) })
			}
		}
	}
}

// then returns what calls both; first may be nil.
func then(first, second func(apiserver.Step)) func(apiserver.Step) {
	if first == nil {
		return second
	}
	return func(step apiserver.Step) {
		first(step)
		second(step)
	}
}

// tell hands a step to the handler of a watch, as an informer does. What a handler adds at
// once it may have from a map: that is sorted, so that each run is alike.
func tell(ctx context.Context, source worker.Watch, step apiserver.Step, q *queue) {
	before := len(q.ready)
	defer func() { q.sortFrom(before) }()
	switch {
	case step.New == nil && step.Old == nil: // it came and went unseen
	case step.Old == nil:
		e := event.CreateEvent{Object: step.New}
		for _, p := range source.Predicates {
			if !p.Create(e) {
				return
			}
		}
		source.Handler.Create(ctx, e, q)
	case step.New == nil:
		e := event.DeleteEvent{Object: step.Old}
		for _, p := range source.Predicates {
			if !p.Delete(e) {
				return
			}
		}
		source.Handler.Delete(ctx, e, q)
	default:
		e := event.UpdateEvent{ObjectOld: step.Old, ObjectNew: step.New}
		for _, p := range source.Predicates {
			if !p.Update(e) {
				return
			}
		}
		source.Handler.Update(ctx, e, q)
	}
}

// events counts what people are told.
type events struct{ world *world }

// Eventf implements events.EventRecorder.
func (e events) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
	e.world.mu.Lock()
	defer e.world.mu.Unlock()
	e.world.events++
}

// told returns how many events there were so far.
func (w *world) told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// pods are reached as drains do.
type pods struct{ client *apiserver.Client }

// OnNode implements drain.Pods.
func (p pods) OnNode(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := p.client.List(ctx, &list, &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node)})
	return list.Items, err
}

// Evict implements drain.Pods.
func (p pods) Evict(ctx context.Context, pod *corev1.Pod, gracePeriodSeconds *int64) error {
	return p.client.Evict(ctx, client.ObjectKeyFromObject(pod), &metav1.DeleteOptions{
		GracePeriodSeconds: gracePeriodSeconds, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}
