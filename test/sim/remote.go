package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// remote returns the remote runner that leads, nil if none does.
func (w *world) remote() *process {
	for _, p := range w.processes {
		if p.remote {
			return p
		}
	}
	return nil
}

// startRemoteRunner starts one that leads, whether or not another one does.
func (w *world) startRemoteRunner() {
	w.remotes++
	p := w.newProcess(fmt.Sprintf("remote-%d", w.remotes), "remote-runner", nil)
	p.remote = true
	w.say(p.name, "starts")
	work, err := runner.NewRemoteWorker(runner.RemoteWorkerOptions{
		Outside: runner.Outside{RunnerID: p.name, Clock: p.clock, ServerClock: p.corrected(), Events: notes{}, Switch: w.switchOf(p), Needed: needed},
		API:     remoteAPI{runnerAPI{p.client}}, Machines: asked{w.owners, p}, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		w.broken("the simulation", "starting a remote runner: %v", err)
		return
	}
	l := &loop{process: p, name: "actions", workers: 8, queue: newQueue(w.turn)}
	l.look = func(ctx context.Context, name string) (reconcile.Result, error) {
		ctx = remedy.WithPoints(ctx, func(at string) {
			_ = p.gate(ctx, apiserver.Request{Verb: point, Kind: at}, func() error { return nil }) // nothing is asked
		})
		err := work.Work(ctx, name)
		if after, known := runner.Again(err); known {
			return reconcile.Result{RequeueAfter: after}, nil
		}
		return reconcile.Result{}, err
	}
	p.loops = append(p.loops, l)
	actions := &watch{kind: &v1alpha1.NodeAction{}, told: func(step apiserver.Step) {
		if a, ok := step.New.(*v1alpha1.NodeAction); ok && a.Spec.Executor == v1alpha1.ExecutorRemote && a.Finished() == nil {
			l.queue.add(a.Name)
		}
	}}
	p.watches = append(p.watches, actions)
	w.must(p.view.Watch(actions.kind, nil))
	w.relist(p, actions)
}

// freshRemote has one remote runner lead, which goes on from what others have left.
func (w *world) freshRemote() {
	for p := w.remote(); p != nil; p = w.remote() {
		w.end(p)
	}
	w.startRemoteRunner()
}

// killRemote lets the remote runner die, and another one lead later.
func (w *world) killRemote() bool {
	if w.remote() == nil {
		return false
	}
	w.end(w.remote())
	w.after(of(w.choices, time.Second, 30*time.Second, 5*time.Minute), w.oneRemote)
	return true
}

func (w *world) oneRemote() {
	if w.remote() == nil {
		w.startRemoteRunner()
	}
}

// secondRemote lets another remote runner lead while the first one still believes that it does.
func (w *world) secondRemote() bool {
	if w.remote() == nil {
		return false
	}
	old := w.remote()
	w.startRemoteRunner()
	w.after(w.while(), func() {
		w.end(old)
		w.oneRemote() // the other one may have died, too
	})
	return true
}

// cutRemoteOff parts a remote runner from the API server for a while, but not from BMCs.
func (w *world) cutRemoteOff() bool {
	p := w.remote()
	if p == nil {
		return false
	}
	long := of(w.choices, 5*time.Second, 30*time.Second, 3*time.Minute)
	p.cut = time.Now().Add(long)
	p.slowUntil(p.cut)
	w.say(p.name, "is cut off from the API server for %s", long)
	return true
}

// remoteAPI is a remote runner's API server.
type remoteAPI struct{ runnerAPI }

// Lease implements runner.RemoteAPI.
func (a remoteAPI) Lease(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	return getIn(ctx, a.client, corev1.NamespaceNodeLease, node, &coordinationv1.Lease{})
}

// Twin implements runner.RemoteAPI.
func (a remoteAPI) Twin(ctx context.Context, node string, machine power.UUID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var nodes corev1.NodeList
	err := a.client.List(ctx, &nodes)
	for i := range nodes.Items {
		other := &nodes.Items[i]
		is, unknown := power.ParseUUID(other.Status.NodeInfo.SystemUUID)
		if unknown == nil && other.Name != node && slices.Contains(machine.Alike(), is) {
			return other.Name, nil
		}
	}
	return "", err
}

// Ready implements runner.RemoteAPI.
func (a remoteAPI) Ready(ctx context.Context, names []string, but types.UID) (ready int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var nodes corev1.NodeList
	err = a.client.List(ctx, &nodes)
	among := map[string]bool{}
	for _, name := range names {
		among[name] = true
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; among[n.Name] && n.UID != but && !notReady(n) {
			ready++
		}
	}
	return ready, err
}

// Holds implements runner.RemoteAPI.
func (a remoteAPI) Holds(ctx context.Context, node string) (holds runner.Holds, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var budgets v1alpha1.RemediationBudgetList
	var maintenances v1alpha1.NodeMaintenanceList
	if err := a.client.List(ctx, &budgets); err != nil {
		return holds, err
	}
	holds.Budgets = budgets.Items
	err = a.client.List(ctx, &maintenances, client.MatchingFields{"spec.nodeName": node})
	holds.Maintenances = maintenances.Items
	return holds, err
}
