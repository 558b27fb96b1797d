package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

const (
	timeout   = 30 * time.Minute
	finalizer = "machine.cluster.x-k8s.io"
)

var errDied = errors.New("the remote runner has died")

// scene is a cluster, the management cluster of its machines, and an action that has one replaced.
// There are three nodes, w1 to w3, of which w1 is broken.
type scene struct {
	*testing.T
	clock *clocktesting.FakeClock
	ahead time.Duration // how far the remote runner's own clock is, of the API server's
	// here is this cluster, there that of the Machines, as everybody but the remote runner has them.
	here, there client.WithWatch
	w           *runner.RemoteWorker
	config      *remote.Replace

	// calls of the remote runner so far. The one of this number is its last: before its effect, or
	// after it.
	calls, at int
	before    bool
	died      bool
	runners   int
	// happens is called before each call.
	happens func(call int)
	// sent are the UIDs of machines whose deletion, or mark, was accepted, and when.
	sent []types.UID
	// forbidden since when, by whatever people have said; the zero time: nothing is.
	forbidden time.Time
	// unreachable: the management cluster does not answer.
	unreachable bool

	// drains, boots: how long the owner takes to delete a machine, and a new one to be Ready.
	drains, boots time.Duration
	// stuck: machines keep their finalizers. lazy: the owner does nothing, barren: it makes no new ones.
	stuck, lazy, barren bool
	made                int
}

// known are the kinds that Go types are for.
var known = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
})

func step() v1alpha1.Step {
	return v1alpha1.Step{
		Replace: &v1alpha1.ReplaceRemedy{}, Timeout: v1alpha1.Duration{Duration: timeout}, VerifyTimeout: v1alpha1.Duration{Duration: time.Minute}, Attempts: 1,
	}
}

func nodeOf(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Annotations: map[string]string{
			machineAnnotation: "m-" + name, machineNamespaceAnnotation: "fleet",
		}},
		Spec: corev1.NodeSpec{ProviderID: "played://" + name, Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-1"},
		},
	}
}

// object is one of a foreign kind.
func object(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := empty(&v1alpha1.ExternalObject{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name})
	o.SetUID(types.UID(strings.ToLower(kind) + "-" + name))
	for key, value := range fields {
		o.Object[key] = value
	}
	return o
}

func capi(kind, name string, fields map[string]any) *unstructured.Unstructured {
	return object("cluster.x-k8s.io/v1beta2", kind, "fleet", name, fields)
}

func ownedBy(o, owner *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true),
	}})
	return o
}

func machineSet() *unstructured.Unstructured {
	return capi("MachineSet", "workers", map[string]any{"spec": map[string]any{"replicas": int64(3)}, "status": map[string]any{"replicas": int64(3)}})
}

func machineOf(name string) *unstructured.Unstructured {
	m := ownedBy(capi("Machine", "m-"+name, map[string]any{
		"spec":   map[string]any{"clusterName": "prod", "providerID": "played://" + name},
		"status": map[string]any{"nodeRef": map[string]any{"name": name}},
	}), machineSet())
	m.SetLabels(map[string]string{clusterLabel: "prod", "pool": "workers"})
	m.SetFinalizers([]string{finalizer})
	return m
}

func healthCheck(remediation map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"clusterName": "prod", "selector": map[string]any{"matchLabels": map[string]any{"pool": "workers"}}}
	if remediation != nil {
		spec["remediation"] = remediation
	}
	return capi("MachineHealthCheck", "workers", map[string]any{"spec": spec})
}

// newScene returns one whose nodes have Machines of a MachineSet.
func newScene(t *testing.T, there ...client.Object) *scene {
	t.Helper()
	one := step()
	hash, err := one.Hash()
	if err != nil {
		t.Fatal(err)
	}
	match := []v1alpha1.ConditionMatch{{Type: "Broken", Status: corev1.ConditionTrue}}
	w1 := nodeOf("w1")
	w1.Status.Conditions = append(w1.Status.Conditions, corev1.NodeCondition{Type: "Broken", Status: corev1.ConditionTrue})
	here := []client.Object{
		w1, nodeOf("w2"), nodeOf("w3"),
		&v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p-uid"}, Spec: v1alpha1.RemedyPolicySpec{Match: match, Steps: []v1alpha1.Step{one}}},
		&v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Name: "w1-r", UID: "r-uid"},
			Spec: v1alpha1.RemediationSpec{
				NodeName: "w1", NodeUID: "w1-uid", Policy: v1alpha1.PolicyReference{Name: "p", UID: "p-uid"}, Match: match, Steps: []v1alpha1.Step{one},
			},
			Status: v1alpha1.RemediationStatus{Action: "w1-r-1", Step: 1, Attempt: 1, BootID: "boot-1"},
		},
		&v1alpha1.NodeAction{
			ObjectMeta: metav1.ObjectMeta{Name: "w1-r-1", UID: "action-uid", CreationTimestamp: metav1.NewTime(start), Finalizers: []string{v1alpha1.PowerFinalizer}},
			Spec: v1alpha1.NodeActionSpec{
				NodeName: "w1", NodeUID: "w1-uid", Executor: v1alpha1.ExecutorRemote, Remediation: "w1-r", RemediationUID: "r-uid",
				Policy: v1alpha1.PolicyReference{Name: "p", UID: "p-uid"}, StepHash: hash, Step: 1, Attempt: 1,
				Timeout: v1alpha1.Duration{Duration: timeout}, ExpiresAt: metav1.NewTime(start.Add(time.Minute)),
			},
		},
	}
	if there == nil {
		there = []client.Object{capi("Cluster", "prod", nil), machineSet(), machineOf("w1"), machineOf("w2"), machineOf("w3")}
	}
	s := &scene{
		T: t, clock: clocktesting.NewFakeClock(start), drains: time.Minute, boots: 2 * time.Minute,
		config: &remote.Replace{Karpenter: true, ClusterAPI: &remote.ClusterAPI{Namespace: "fleet", Cluster: "prod", Kubeconfig: "/management"}},
	}
	scheme, err := known()
	s.must(err)
	s.here = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeAction{}).WithObjects(here...).Build()
	s.there = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(there...).Build()
	// The fake client has to know of a kind that nothing is of.
	for _, kind := range []string{"Cluster", "MachineSet", "Machine", "MachineHealthCheck"} {
		probe := capi(kind, "probe", nil)
		s.must(s.there.Create(t.Context(), probe))
		s.must(s.there.Delete(t.Context(), probe))
	}
	s.restart()
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// call is one of the remote runner's to an API server.
func (s *scene) call(do func() error) error {
	if s.died {
		return errDied
	}
	s.calls++
	if s.happens != nil {
		s.happens(s.calls)
	}
	if s.calls == s.at && s.before {
		s.died = true
		return errDied
	}
	err := do()
	if s.calls == s.at {
		s.died = true
		return errDied
	}
	return err
}

// seenBy is an API server as the remote runner has it.
func (s *scene) seenBy(c client.WithWatch, foreign bool) client.Client {
	reach := func() error {
		if foreign && s.unreachable {
			return errors.New("no route to the management cluster")
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return s.call(func() error { return errors.Join(reach(), c.Get(ctx, key, o, opts...)) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return s.call(func() error { return errors.Join(reach(), c.List(ctx, list, opts...)) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.call(func() error {
				var options client.DeleteOptions
				options.ApplyOptions(opts)
				p := options.Preconditions
				if p == nil || p.UID == nil || p.ResourceVersion == nil {
					s.Fatalf("%s is deleted, whichever it is by now", o.GetName())
				}
				if err := reach(); err != nil {
					return err
				}
				if uid := s.uidOf(ctx, c, o); uid != "" && uid != *p.UID { // the fake client does not look
					return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("machines").GroupResource(), o.GetName(), errors.New("another UID"))
				}
				return s.sends(*p.UID, c.Delete(ctx, o, opts...)) //nolint:contextcheck // the scene's own look
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.call(func() error {
				data, err := patch.Data(o)
				s.must(err)
				if !strings.Contains(string(data), "resourceVersion") {
					s.Fatalf("%s is patched, whatever it is by now: %s", o.GetName(), data)
				}
				if err := reach(); err != nil {
					return err
				}
				uid, back := s.uidOf(ctx, c, o), strings.Contains(string(data), "null")
				if err := c.Patch(ctx, o, patch, opts...); err != nil || back {
					return err
				}
				return s.sends(uid, nil) //nolint:contextcheck // the scene's own look
			})
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the remote runner updates no whole object")
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("the remote runner creates nothing")
		},
	})
}

func (s *scene) uidOf(ctx context.Context, c client.Client, o client.Object) types.UID {
	there := empty(&v1alpha1.ExternalObject{Namespace: o.GetNamespace(), Name: o.GetName()})
	there.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
		return ""
	}
	return there.GetUID()
}

// sends judges what was done to a machine.
func (s *scene) sends(uid types.UID, err error) error {
	s.Helper()
	if err != nil {
		return err
	}
	status := s.action().Status
	switch {
	case status.Claim == nil || status.Replace == nil || status.Replace.Machine.UID != uid:
		s.Fatalf("machine %s is replaced, and the action does not say so: %+v", uid, status)
	case !s.forbidden.IsZero() && s.clock.Now().Sub(s.forbidden) > 10*time.Second:
		s.Fatalf("machine %s is replaced, and that is forbidden since %s", uid, s.clock.Now().Sub(s.forbidden))
	case !strings.Contains(string(uid), "w1"):
		s.Fatalf("machine %s is replaced, which is not that of w1", uid)
	}
	s.sent = append(s.sent, uid)
	return nil
}

// passing is the remote runner's own clock, by which time passes for who waits.
type passing struct {
	*clocktesting.FakeClock
	ahead time.Duration // of the API server's
}

// Now implements clock.Clock.
func (c passing) Now() time.Time { return c.FakeClock.Now().Add(c.ahead) }

// Since implements clock.Clock.
func (c passing) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// NewTimer implements clock.Clock.
func (c passing) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.Step(d)
	return timer
}

// restart lets another remote runner go on.
func (s *scene) restart() {
	s.Helper()
	s.died = false
	s.runners++
	here, there := s.seenBy(s.here, false), s.seenBy(s.there, true)
	w, err := runner.NewRemoteWorker(runner.RemoteWorkerOptions{
		Outside: runner.Outside{
			RunnerID: fmt.Sprint("runner-", s.runners), Clock: passing{s.clock, s.ahead}, ServerClock: serverclock.New(s.clock), Events: record.NewFakeRecorder(1000),
			Switch: func(*corev1.Node) (power.Switch, error) { return nil, errors.New("no switch is asked for") },
			Needed: func(*corev1.Node) (*corev1.Node, error) { return nil, errors.New("no switch is asked for") },
		},
		API: api{s, here}, Registry: prometheus.NewRegistry(),
		Machines: New(Options{
			Config: func() (*remote.Replace, error) { return s.config, nil },
			Here:   func() (client.Client, error) { return here, nil },
			Elsewhere: func(kubeconfig string) (client.Client, error) {
				if kubeconfig != "/management" {
					return nil, fmt.Errorf("no kubeconfig %s", kubeconfig)
				}
				return there, nil
			},
		}),
	})
	s.must(err)
	s.w = w
}

// look lets the remote runner take its next steps. If it dies, another one goes on.
func (s *scene) look() {
	s.Helper()
	err := s.w.Work(s.Context(), "w1-r-1")
	if s.died || errors.Is(err, errDied) {
		s.restart()
	}
	if a := s.action(); a != nil && a.Finished() != nil && a.Finished().Reason == v1alpha1.ReasonReplaced {
		if m := s.machine(); m != nil {
			s.Fatalf("it is said to be replaced, and is there: %v", m.Object)
		}
	}
}

func (s *scene) action() *v1alpha1.NodeAction {
	s.Helper()
	var a v1alpha1.NodeAction
	err := s.here.Get(s.Context(), client.ObjectKey{Name: "w1-r-1"}, &a)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return &a
}

// machine is that of w1, nil if it is gone.
func (s *scene) machine() *unstructured.Unstructured {
	s.Helper()
	m := machineOf("w1")
	err := s.there.Get(s.Context(), client.ObjectKeyFromObject(m), m)
	if apierrors.IsNotFound(err) || err == nil && m.GetUID() != "machine-m-w1" {
		return nil
	}
	s.must(err)
	return m
}

// change changes an object of the management cluster, as others do.
func (s *scene) change(o *unstructured.Unstructured, change func(*unstructured.Unstructured)) {
	s.Helper()
	s.must(s.there.Get(s.Context(), client.ObjectKeyFromObject(o), o))
	change(o)
	s.must(s.there.Update(s.Context(), o))
}

// policy and node change those, as people do.
func (s *scene) policy(change func(*v1alpha1.RemedyPolicy)) {
	s.Helper()
	var p v1alpha1.RemedyPolicy
	s.must(s.here.Get(s.Context(), client.ObjectKey{Name: "p"}, &p))
	change(&p)
	s.must(s.here.Update(s.Context(), &p))
}

func (s *scene) node(change func(*corev1.Node)) {
	s.Helper()
	var n corev1.Node
	s.must(s.here.Get(s.Context(), client.ObjectKey{Name: "w1"}, &n))
	change(&n)
	status := n.Status
	s.must(s.here.Update(s.Context(), &n))
	n.Status = status
	s.must(s.here.Status().Update(s.Context(), &n))
}

// others lets the controllers of Cluster API do their work: the MachineHealthCheck heeds marks, the
// MachineSet deletes what is to be remediated, and makes new Machines, whose nodes come up.
func (s *scene) others() {
	s.Helper()
	if s.lazy {
		return
	}
	var checks, machines unstructured.UnstructuredList
	checks.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	checks.SetKind("MachineHealthCheckList")
	machines.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	machines.SetKind("MachineList")
	s.must(s.there.List(s.Context(), &checks))
	s.must(s.there.List(s.Context(), &machines))
	set := machineSet()
	s.must(client.IgnoreNotFound(s.there.Get(s.Context(), client.ObjectKeyFromObject(set), set)))
	living := int64(0)
	for i := range machines.Items {
		m := &machines.Items[i]
		_, marked := m.GetAnnotations()[remediateAnnotation]
		switch at := m.GetDeletionTimestamp(); {
		case at != nil:
			s.goes(m)
		case marked && len(checks.Items) > 0 && conditions(m)[ownerRemediated].status != "False":
			s.change(m, func(m *unstructured.Unstructured) {
				setConditions(m, map[string]any{"type": ownerRemediated, "status": "False", "reason": "WaitingForRemediation"})
			})
			living++
		case conditions(m)[ownerRemediated].status == "False":
			s.must(s.there.Delete(s.Context(), m))
		default:
			living++
			s.comesUp(m)
		}
	}
	for wants := number(set, 0, "spec", "replicas"); living < wants && !s.barren; living++ {
		s.made++
		m := machineOf(fmt.Sprint("n", s.made))
		delete(m.Object, "status")
		m.SetAnnotations(map[string]string{"made": s.clock.Now().Format(time.RFC3339)})
		s.must(s.there.Create(s.Context(), m))
	}
}

// goes lets a Machine that is being deleted go, with its Node, when it is drained.
func (s *scene) goes(m *unstructured.Unstructured) {
	s.Helper()
	since, is := m.GetAnnotations()["goes"]
	if !is {
		since = s.clock.Now().Format(time.RFC3339)
		s.change(m, func(m *unstructured.Unstructured) {
			m.SetAnnotations(map[string]string{"goes": since})
			setConditions(m, map[string]any{"type": "Deleting", "status": "True", "reason": "DrainingNode", "message": "1 pod is left"})
		})
	}
	at, err := time.Parse(time.RFC3339, since)
	s.must(err)
	if s.stuck || s.clock.Now().Sub(at) < s.drains {
		return
	}
	node := nodeOf(text(m, "status", "nodeRef", "name"))
	s.must(client.IgnoreNotFound(s.here.Delete(s.Context(), node)))
	s.change(m, func(m *unstructured.Unstructured) { m.SetFinalizers(nil) })
}

// comesUp lets a new Machine have its Node, in time.
func (s *scene) comesUp(m *unstructured.Unstructured) {
	s.Helper()
	made, is := m.GetAnnotations()["made"]
	if !is || text(m, "status", "nodeRef", "name") != "" {
		return
	}
	at, err := time.Parse(time.RFC3339, made)
	s.must(err)
	if s.clock.Now().Sub(at) < s.boots {
		return
	}
	name := strings.TrimPrefix(m.GetName(), "m-")
	s.must(s.here.Create(s.Context(), nodeOf(name)))
	s.change(m, func(m *unstructured.Unstructured) {
		m.Object["status"] = map[string]any{"nodeRef": map[string]any{"name": name}}
	})
}

func setConditions(o *unstructured.Unstructured, all ...any) {
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = all
	o.Object["status"] = status
}

// play lets time pass until the action has ended, or so long.
func (s *scene) play(long time.Duration, at map[time.Duration]func()) *v1alpha1.NodeAction {
	s.Helper()
	const tick = 10 * time.Second
	for passed := time.Duration(0); passed <= long; passed += tick {
		if do := at[passed]; do != nil {
			do()
		}
		s.look()
		if a := s.action(); a == nil || a.Finished() != nil {
			return a
		}
		s.others()
		s.clock.Step(tick)
	}
	return s.action()
}

// ended checks how the action has.
func (s *scene) ended(a *v1alpha1.NodeAction, reason, says string) {
	s.Helper()
	switch f := a.Finished(); {
	case reason == "" && f != nil:
		s.Errorf("it has ended: %s: %s", f.Reason, f.Message)
	case reason != "" && f == nil:
		s.Errorf("it has not ended: %+v, %+v", a.Status, a.Status.Replace)
	case reason != "" && (f.Reason != reason || !strings.Contains(f.Message, says)):
		s.Errorf("it has ended as %s: %s\nwant %s: %s", f.Reason, f.Message, reason, says)
	}
}

// api is this cluster as RemoteAPI.
type api struct {
	s *scene
	c client.Client
}

func get[T client.Object](ctx context.Context, a api, name string, into T) (T, error) {
	var none T
	if err := a.c.Get(ctx, client.ObjectKey{Name: name}, into); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return into, nil
}

func (a api) Action(ctx context.Context, name string) (*v1alpha1.NodeAction, error) {
	return get(ctx, a, name, &v1alpha1.NodeAction{})
}

func (a api) Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error) {
	return get(ctx, a, name, &v1alpha1.Remediation{})
}

func (a api) Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error) {
	return get(ctx, a, name, &v1alpha1.RemedyPolicy{})
}

func (a api) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return get(ctx, a, name, &corev1.Node{})
}

func (a api) Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error) {
	return get(ctx, a, name, &v1alpha1.RemediationBudget{})
}

func (api) Request(context.Context, *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return nil, nil //nolint:nilnil // no other program asks for anything here
}

func (api) Lease(context.Context, string) (*coordinationv1.Lease, error) {
	return nil, errors.New("nobody needs to know")
}

func (api) Twin(context.Context, string, power.UUID) (string, error) {
	return "", errors.New("nobody needs to know")
}

func (a api) Ready(ctx context.Context, names []string, but types.UID) (ready int32, err error) {
	var nodes corev1.NodeList
	if err := a.c.List(ctx, &nodes); err != nil {
		return 0, err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		c := v1alpha1.FindNodeCondition(n, string(corev1.NodeReady))
		if slices.Contains(names, n.Name) && n.UID != but && c != nil && c.Status == corev1.ConditionTrue {
			ready++
		}
	}
	return ready, nil
}

func (a api) Holds(ctx context.Context, node string) (holds runner.Holds, err error) {
	var budgets v1alpha1.RemediationBudgetList
	var maintenances v1alpha1.NodeMaintenanceList
	err = errors.Join(a.c.List(ctx, &budgets), a.c.List(ctx, &maintenances))
	for i := range maintenances.Items {
		if maintenances.Items[i].Spec.NodeName == node {
			holds.Maintenances = append(holds.Maintenances, maintenances.Items[i])
		}
	}
	holds.Budgets = budgets.Items
	return holds, err
}

func (a api) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	return a.s.call(func() error { return a.s.here.Status().Update(ctx, action) })
}
