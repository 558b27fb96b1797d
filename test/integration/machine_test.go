//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// machineTick is how often a machine looks at what it has to do.
	machineTick = 300 * time.Millisecond
	// bootTakes is how long a machine is away when it boots, unknownAfter after how
	// long the node controller says so.
	bootTakes, unknownAfter = time.Second, 400 * time.Millisecond
	// machineRunner is the ID of a machine's runner.
	machineRunner = "machine"
)

// machine plays a machine with all that runs on it: kubelet, detector and runner, and
// the node controller for it. All parts stop with it.
type machine struct {
	s *scene
	// node is its name, condition what its detector reports.
	node, condition string

	mu    sync.Mutex
	state machineState
}

// machineState is how a machine is. The zero value is on, well and obedient.
type machineState struct {
	faulty bool
	// cure is the remedy that helps; "": none does.
	cure string
	// outcomes are how remedies end, Succeeded when not there.
	outcomes map[string]string

	off      bool
	offUntil time.Time // it is on again then by itself, unless zero
	boot     int
	// lost: it does not come back from a boot.
	lost bool
	// unchecked: no check has run since it booted.
	unchecked bool
	// deaf: its runner claims nothing. mute: it reports nothing.
	deaf, mute bool
	// hung: its runtime ends no pods.
	hung bool
	// unready: its kubelet runs, and says that the node is not Ready.
	unready bool

	// runs counts the executions of remedies.
	runs map[string]int
	// caught are the pods that were there when it was rebooted.
	caught []string
}

// newMachine creates a scene of one node with a machine and a clock that can leap.
func newMachine(t *testing.T, name string) (*scene, *machine) {
	t.Helper()
	s := newSceneApart(t, name, 1, "1")
	s.clock = newLeaping()
	m := s.machine(s.nodes[0], sick)
	return s, m
}

// machine adds a machine to the scene, for a node that is there.
func (s *scene) machine(node, condition string) *machine {
	s.t.Helper()
	if s.cordons == nil {
		s.watchCordons()
	}
	m := &machine{s: s, node: node, condition: condition, state: machineState{boot: 1, runs: map[string]int{}}}
	s.machines = append(s.machines, m)
	s.spawn("machine "+node, m.play)
	return m
}

// set changes how the machine is.
func (m *machine) set(change func(*machineState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.state)
}

// get returns how it is.
func (m *machine) get() machineState {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.state
	state.runs = maps.Clone(m.state.runs)
	return state
}

func (m *machine) breakDown() { m.set(func(s *machineState) { s.faulty = true }) }
func (m *machine) repair()    { m.set(func(s *machineState) { s.faulty = false }) }
func (m *machine) switchOff() { m.set(func(s *machineState) { s.off, s.offUntil = true, time.Time{} }) }
func (m *machine) switchOn() {
	m.set(func(s *machineState) { s.off, s.boot = false, s.boot+1 })
}

// reboots returns how often the machine was told to reboot, and has begun to.
func (m *machine) reboots() int { return m.get().runs[v1alpha1.RemedyReboot] }

// reported is a condition as it was reported last.
type reported struct {
	status corev1.ConditionStatus
	since  time.Time
	at     time.Time
}

// now returns the condition as it is reported now.
func (r *reported) now(conditionType string, status corev1.ConditionStatus, now time.Time) corev1.NodeCondition {
	if r.status != status {
		r.status, r.since = status, now
	}
	if status != corev1.ConditionUnknown {
		r.at = now
	}
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(conditionType), Status: status, Reason: "Test", Message: "reported by a test",
		LastHeartbeatTime: metav1.NewTime(r.at), LastTransitionTime: metav1.NewTime(r.since),
	}
}

// play lets the machine work until the context ends.
func (m *machine) play(ctx context.Context) error {
	var ready, fault reported
	var offSince time.Time
	tick := time.NewTicker(machineTick)
	defer tick.Stop()
	plays := m.s.clock.actor("machine " + m.node)
	defer plays.leave()
	for {
		now := plays.turn()
		m.set(func(s *machineState) {
			if s.off && !s.offUntil.IsZero() && now.After(s.offUntil) {
				s.off, s.offUntil, s.boot = false, time.Time{}, s.boot+1
			}
		})
		state := m.get()
		var err error
		if state.off {
			if offSince.IsZero() {
				offSince = now
			}
			if now.Sub(offSince) > unknownAfter {
				err = m.write(ctx, map[string]any{"conditions": []corev1.NodeCondition{ready.now("Ready", corev1.ConditionUnknown, now)}})
			}
		} else {
			offSince = time.Time{}
			is := corev1.ConditionTrue
			if state.unready {
				is = corev1.ConditionFalse
			}
			conditions := []corev1.NodeCondition{ready.now("Ready", is, now)}
			if !state.unchecked {
				seen := corev1.ConditionFalse
				if state.faulty {
					seen = corev1.ConditionTrue
				}
				conditions = append(conditions, fault.now(m.condition, seen, now))
			}
			err = errors.Join(
				m.renew(ctx, now),
				m.write(ctx, map[string]any{"conditions": conditions, "nodeInfo": map[string]any{"bootID": bootID(state.boot)}}),
				m.tendPods(ctx, state.hung),
				m.work(ctx, state, now),
			)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !plays.next(ctx, tick.C) {
			return nil
		}
	}
}

func bootID(boot int) string { return fmt.Sprintf("boot-%d", boot) }

// write writes a part of the node's status, if there is a node.
func (m *machine) write(ctx context.Context, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	return client.IgnoreNotFound(m.s.client.Status().Patch(ctx, obj, client.RawPatch(types.StrategicMergePatchType, patch)))
}

// renew renews the node's Lease.
func (m *machine) renew(ctx context.Context, now time.Time) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: m.node, Labels: m.s.labels()}}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(now)}})
	if err != nil {
		return err
	}
	err = m.s.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now))
		return m.s.client.Create(ctx, lease)
	}
	return err
}

// pods returns those on the node.
func (m *machine) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := m.s.client.List(ctx, &list, client.MatchingFields{"spec.nodeName": m.node})
	return list.Items, err
}

// tendPods starts pods, and ends those that were told to end.
func (m *machine) tendPods(ctx context.Context, hung bool) error {
	pods, err := m.pods(ctx)
	for i := range pods {
		pod := &pods[i]
		switch {
		case hung:
		case pod.DeletionTimestamp != nil:
			err = errors.Join(err, client.IgnoreNotFound(m.s.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})))
		case pod.Status.Phase == corev1.PodPending:
			running := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))
			err = errors.Join(err, client.IgnoreNotFound(m.s.client.Status().Patch(ctx, pod, running)))
		}
	}
	return err
}

// work plays the runner.
func (m *machine) work(ctx context.Context, state machineState, now time.Time) error {
	var list v1alpha1.NodeActionList
	if err := m.s.client.List(ctx, &list, client.MatchingFields{"spec.nodeName": m.node}); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		a := &list.Items[i]
		claim := a.Status.Claim
		var err error
		switch {
		case a.Finished() != nil:
		case claim == nil && !state.deaf && now.Before(a.Spec.ExpiresAt.Time):
			err = m.execute(ctx, a, state, now)
		case claim == nil || state.mute:
		case claim.Remedy != v1alpha1.RemedyReboot:
			err = m.finish(ctx, a, state.outcomes[claim.Remedy], now)
		case claim.BootID != bootID(state.boot):
			err = m.finish(ctx, a, "", now)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // it was cancelled, or deleted
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// execute claims an action, and executes it.
func (m *machine) execute(ctx context.Context, a *v1alpha1.NodeAction, state machineState, now time.Time) error {
	var r v1alpha1.Remediation
	if err := m.s.client.Get(ctx, types.NamespacedName{Name: a.Spec.Remediation}, &r); err != nil {
		return err
	}
	remedy := r.Spec.Steps[a.Spec.Step-1].Remedy()
	a.Status.Claim = &v1alpha1.Claim{RunnerID: machineRunner, BootID: bootID(state.boot), Time: metav1.NewTime(now), Remedy: remedy}
	if err := m.s.client.Status().Update(ctx, a); err != nil {
		return err
	}
	pods, err := m.pods(ctx)
	m.set(func(s *machineState) {
		s.runs[remedy]++
		if s.cure == remedy {
			s.faulty = false
		}
		if remedy != v1alpha1.RemedyReboot || s.mute {
			return
		}
		s.off = true
		if !s.lost {
			s.offUntil = now.Add(bootTakes)
		}
		for i := range pods {
			if owner := metav1.GetControllerOf(&pods[i]); owner == nil || owner.Kind != "DaemonSet" {
				s.caught = append(s.caught, pods[i].Name)
			}
		}
	})
	return err
}

// finish reports how an action ended.
func (m *machine) finish(ctx context.Context, a *v1alpha1.NodeAction, outcome string, now time.Time) error {
	if outcome == "" {
		outcome = v1alpha1.ReasonSucceeded
	}
	a.Status.Result = &v1alpha1.ActionResult{StartedAt: metav1.NewMicroTime(now), FinishedAt: metav1.NewMicroTime(now)}
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: outcome, Message: "by a test",
		LastTransitionTime: metav1.NewTime(now),
	})
	return m.s.client.Status().Update(ctx, a)
}

// pod puts a pod on the node, of a controller of this kind; "": of none.
func (m *machine) pod(name, owner string) *corev1.Pod {
	m.s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: m.s.name + "-" + name, Labels: m.s.labels()},
		Spec:       corev1.PodSpec{NodeName: m.node, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "owner", UID: "owner", Controller: ptr.To(true)}}
	}
	m.s.create(pod)
	return pod
}

// podNames returns the names of the node's pods without the scene's.
func (m *machine) podNames() []string {
	pods, err := m.pods(m.s.ctx)
	m.s.Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for i := range pods {
		names = append(names, pods[i].Name[len(m.s.name)+1:])
	}
	return names
}

// reports returns the status that the machine's detector has reported last, "" if none.
func (m *machine) reports() string {
	if c := v1alpha1.FindNodeCondition(m.s.findNode(m.node), m.condition); c != nil {
		return string(c.Status)
	}
	return ""
}
