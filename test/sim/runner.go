package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// adoption is the name of the runner's first look: at what an earlier one has left.
const adoption = "(adoption)"

// conflictRetry is the runner's pause after somebody else wrote an action first.
const conflictRetry = 20 * time.Millisecond

// runnerKind is which runner a node has.
type runnerKind int

const (
	usual runnerKind = iota
	dry              // it only says what it would do
	old              // it does not know how to restart units
)

// startRunner starts the node's runner.
func (n *node) startRunner() {
	w := n.world
	if n.deaf {
		return
	}
	w.end(n.runner)
	n.emptyDisk()
	p := w.newProcess("runner "+n.name, "runner", n)
	p.clock.offset = n.offset
	n.runner = p
	w.say(p.name, "starts")
	book, err := ledger.Open(n.runDir())
	if err != nil {
		w.broken("the simulation", "opening the ledger: %v", err)
		return
	}
	remedies := map[string]remedy.Remedy{}
	for _, kind := range runner.Kinds() {
		remedies[kind.Name] = played{p, kind.Name}
	}
	if n.runs == old {
		n.older = time.Now()
		delete(remedies, v1alpha1.RemedyRestartUnit)
	}
	work, err := runner.NewWorker(runner.WorkerOptions{
		NodeName: n.name, BootID: n.bootID(), API: runnerAPI{p.client}, Ledger: book, Remedies: remedies,
		Clock: p.clock, ServerClock: p.corrected(), Uptime: func() time.Duration { return time.Since(n.booted) },
		Vetoed:  func(context.Context, remedy.Order) string { return "" },
		Recheck: func(context.Context) error { n.demand(); return nil },
		Events:  notes{}, Registry: prometheus.NewRegistry(), DryRun: n.runs == dry,
	})
	if err != nil {
		w.broken("the simulation", "starting a runner: %v", err)
		return
	}
	l := &loop{process: p, name: "actions", workers: 1, queue: newQueue(w.turn)}
	l.look = func(ctx context.Context, name string) (reconcile.Result, error) {
		ctx = remedy.WithPoints(ctx, func(at string) {
			_ = p.gate(ctx, apiserver.Request{Verb: point, Kind: at}, func() error { return nil }) // nothing is asked
		})
		if name == adoption {
			l.more = work.Adopt(ctx)
			return reconcile.Result{}, nil
		}
		err := work.Work(ctx, name)
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		return reconcile.Result{}, err
	}
	p.loops = append(p.loops, l)
	actions := &watch{kind: &v1alpha1.NodeAction{}, told: func(step apiserver.Step) {
		if a, ok := step.New.(*v1alpha1.NodeAction); ok && a.Spec.NodeName == n.name && a.Finished() == nil {
			l.queue.add(a.Name)
		}
	}}
	p.watches = append(p.watches, actions)
	w.must(p.view.Watch(actions.kind, nil))
	l.queue.add(adoption)
	w.relist(p, actions)
}

// runnerAPI is a runner's API server.
type runnerAPI struct{ client *apiserver.Client }

// Action implements runner.API.
func (a runnerAPI) Action(ctx context.Context, name string) (*v1alpha1.NodeAction, error) {
	return get(ctx, a.client, name, &v1alpha1.NodeAction{})
}

// Remediation implements runner.API.
func (a runnerAPI) Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error) {
	return get(ctx, a.client, name, &v1alpha1.Remediation{})
}

// Policy implements runner.API.
func (a runnerAPI) Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error) {
	return get(ctx, a.client, name, &v1alpha1.RemedyPolicy{})
}

// Node implements runner.API.
func (a runnerAPI) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return get(ctx, a.client, name, &corev1.Node{})
}

// Budget implements runner.API.
func (a runnerAPI) Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error) {
	return get(ctx, a.client, name, &v1alpha1.RemediationBudget{})
}

// Request implements runner.API.
func (a runnerAPI) Request(ctx context.Context, request *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return getIn(ctx, a.client, request.Namespace, request.Name, &v1alpha1.NodemendRemediation{})
}

// UpdateStatus implements runner.API.
func (a runnerAPI) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.client.Status().Update(context.WithValue(ctx, writesKey{}, action.DeepCopy()), action)
}

// requestTimeout bounds a runner's request, as in the product.
const requestTimeout = 15 * time.Second

func get[T client.Object](ctx context.Context, c client.Client, name string, obj T) (T, error) {
	return getIn(ctx, c, "", name, obj)
}

func getIn[T client.Object](ctx context.Context, c client.Client, namespace, name string, obj T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var none T
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	switch {
	case err == nil:
		return obj, nil
	case apierrors.IsNotFound(err):
		return none, nil
	default:
		return none, fmt.Errorf("reading %T %s: %w", obj, name, err)
	}
}

// notes are events that nobody reads.
type notes struct{}

// Event implements record.EventRecorder.
func (notes) Event(runtime.Object, string, string, string) {}

// Eventf implements record.EventRecorder.
func (notes) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf implements record.EventRecorder.
func (notes) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}
