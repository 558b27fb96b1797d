//go:build integration

package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs, ControllerManager: true, Scheduler: true, Kwok: true}))
}

// patience bounds every wait: only what hangs needs it.
const patience = 5 * time.Minute

// scene has a namespace, and takes the nodes and maintenances it made away in the end.
type scene struct {
	testing.TB
	ctx    context.Context
	client client.WithWatch
	name   string
	owner  metav1.OwnerReference
}

func newScene(t testing.TB, name string) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*patience)
	t.Cleanup(cancel)
	s := &scene{TB: t, ctx: ctx, name: name}
	scheme := runtime.NewScheme()
	s.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	var err error
	s.client, err = client.NewWithWatch(clustertest.Shared(t).Config, client.Options{Scheme: scheme})
	s.must(err)
	t.Cleanup(s.cleanUp)
	// It may be there from another run of the test.
	s.must(client.IgnoreAlreadyExists(s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	s.await("the service account", func() bool {
		return s.exists(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	})
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "owner"}}
	s.must(client.IgnoreAlreadyExists(s.client.Create(ctx, owner)))
	s.must(s.client.Get(ctx, client.ObjectKeyFromObject(owner), owner))
	s.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}
	return s
}

// cleanUp deletes what concerns the scenes after this one. No manager runs any more.
func (s *scene) cleanUp() {
	var list v1alpha1.NodeMaintenanceList
	s.must(s.client.List(s.ctx, &list))
	for i := range list.Items {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		s.must(client.IgnoreNotFound(s.client.Patch(s.ctx, &list.Items[i], free)))
	}
	s.must(s.client.DeleteAllOf(s.ctx, &v1alpha1.NodeMaintenance{}))
	s.must(s.client.DeleteAllOf(s.ctx, &v1alpha1.Remediation{}))
	for _, kind := range []client.Object{&appsv1.Deployment{}, &appsv1.DaemonSet{}, &policyv1.PodDisruptionBudget{}} {
		s.must(s.client.DeleteAllOf(s.ctx, kind, client.InNamespace(s.name)))
	}
	s.must(s.client.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(s.name), client.GracePeriodSeconds(0)))
	s.must(s.client.DeleteAllOf(s.ctx, &corev1.Node{}))
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await polls until it is so.
func (s *scene) await(what string, so func() bool) {
	s.Helper()
	if err := wait.PollUntilContextTimeout(s.ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil }); err != nil {
		s.Fatalf("waiting for %s: %v", what, err)
	}
}

func (s *scene) create(obj client.Object) {
	s.Helper()
	s.must(s.client.Create(s.ctx, obj))
}

// exists reads the object anew.
func (s *scene) exists(obj client.Object) bool {
	s.Helper()
	err := s.client.Get(s.ctx, client.ObjectKeyFromObject(obj), obj)
	s.must(client.IgnoreNotFound(err))
	return err == nil
}

func (s *scene) delete(obj client.Object) {
	s.Helper()
	s.must(s.client.Delete(s.ctx, obj))
}

// patch changes an object by a merge patch.
func (s *scene) patch(obj client.Object, format string, args ...any) {
	s.Helper()
	s.must(s.client.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))))
}

// plainNode makes a node that nobody plays.
func (s *scene) plainNode(name string) string {
	s.Helper()
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"scene": s.name}, Annotations: map[string]string{"other": "stays"}}})
	return name
}

// kwokNodes makes nodes that run pods.
func (s *scene) kwokNodes(prefix string, n int) []string {
	s.Helper()
	nodes, err := clustertest.Shared(s).AddNodes(s.ctx, n, prefix, map[string]string{"scene": s.name})
	s.must(err)
	return nodes
}

func aNode(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// node returns a node as it is.
func (s *scene) node(name string) *corev1.Node {
	s.Helper()
	node := aNode(name)
	s.must(s.client.Get(s.ctx, client.ObjectKeyFromObject(node), node))
	return node
}

func (s *scene) uncordonByHand(name string) {
	s.Helper()
	s.patch(aNode(name), `{"spec":{"unschedulable":null}}`)
}

func (s *scene) cordonByHand(name string) {
	s.Helper()
	s.patch(aNode(name), `{"spec":{"unschedulable":true}}`)
}

// out reports whether the node is out of service by us.
func (s *scene) out(name string) bool {
	s.Helper()
	node := s.node(name)
	_, isMarked := marked(node)
	return node.Spec.Unschedulable && isMarked
}

// expectInService expects that nothing is left on a node of what was done to it.
func (s *scene) expectInService(name string) {
	s.Helper()
	node := s.node(name)
	if mark, isMarked := marked(node); node.Spec.Unschedulable || isMarked {
		s.Errorf("node %s is not given back: unschedulable %t, mark %q", name, node.Spec.Unschedulable, mark)
	}
}

func (s *scene) awaitInService(name string) {
	s.Helper()
	s.await("node "+name+" to be given back", func() bool { return !s.node(name).Spec.Unschedulable })
	s.expectInService(name)
}

// maintain makes a maintenance; without a drain it cordons only.
func (s *scene) maintain(name, node string, how *v1alpha1.Drain, changes ...func(*v1alpha1.NodeMaintenance)) *v1alpha1.NodeMaintenance {
	s.Helper()
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: node, Reason: "swap DIMM A1", RequestedBy: "jane", Drain: how},
	}
	for _, change := range changes {
		change(m)
	}
	s.create(m)
	return m
}

// byPolicy makes a maintenance one of a remediation that names it, for this very node.
func (s *scene) byPolicy(m *v1alpha1.NodeMaintenance) {
	s.Helper()
	m.Finalizers = []string{v1alpha1.MaintenanceFinalizer}
	m.Spec.NodeUID = s.node(m.Spec.NodeName).UID
	r := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name},
		Spec: v1alpha1.RemediationSpec{
			NodeName: m.Spec.NodeName, NodeUID: m.Spec.NodeUID, Policy: v1alpha1.PolicyReference{Name: "p", UID: "p"},
			Trigger:  v1alpha1.Trigger{Type: "Sick", Status: "True", LastTransitionTime: metav1.Now()},
			Match:    []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True"}},
			Steps:    []v1alpha1.Step{{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: m.Spec.Reason}}},
			Recovery: v1alpha1.Recovery{HealthyFor: v1alpha1.Duration{Duration: time.Minute}},
		},
	}
	s.create(r)
	r.Status = v1alpha1.RemediationStatus{Step: 1, Attempt: 1, Maintenance: m.Name}
	s.must(s.client.Status().Update(s.ctx, r))
	m.Spec.Remediation = &v1alpha1.RemediationReference{Name: r.Name, UID: r.UID}
}

// maintenance returns a maintenance as it is, nil if there is none.
func (s *scene) maintenance(name string) *v1alpha1.NodeMaintenance {
	s.Helper()
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.exists(m) {
		return nil
	}
	return m
}

// reasons returns those of its conditions.
func (s *scene) reasons(name string) (cordoned, drained string) {
	s.Helper()
	m := s.maintenance(name)
	if m == nil {
		return "", ""
	}
	return cordonedOf(m).Reason, drainedOf(m).Reason
}

func (s *scene) awaitDrained(name, reason string) *v1alpha1.NodeMaintenance {
	s.Helper()
	s.awaitMaintenance(name, "Drained for "+reason, func(m *v1alpha1.NodeMaintenance) bool { return drainedOf(m).Reason == reason })
	return s.maintenance(name)
}

func (s *scene) awaitCordoned(name, reason string) {
	s.Helper()
	s.awaitMaintenance(name, "Cordoned for "+reason, func(m *v1alpha1.NodeMaintenance) bool { return cordonedOf(m).Reason == reason })
}

func (s *scene) awaitMaintenance(name, what string, so func(*v1alpha1.NodeMaintenance) bool) {
	s.Helper()
	var last *v1alpha1.NodeMaintenance
	defer func() {
		if s.Failed() && last != nil {
			s.Logf("maintenance %s: %+v, drain %+v", name, last.Status, last.Status.Drain)
		}
	}()
	s.await("maintenance "+name+" to be "+what, func() bool { last = s.maintenance(name); return last != nil && so(last) })
}

// release deletes a maintenance and waits until it is gone, as kubectl does.
func (s *scene) release(name string) {
	s.Helper()
	s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.awaitGone(name)
}

func (s *scene) awaitGone(name string) {
	s.Helper()
	s.await("maintenance "+name+" to go", func() bool { return s.maintenance(name) == nil })
}

// managed gives a pod an owner. For a drain whatever controls a pod is as good as a
// ReplicaSet.
func (s *scene) managed(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{s.owner}
}

func ofApp(app string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
}

// pod makes one on a node.
func (s *scene) pod(name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	s.create(pod)
	return pod
}

// awaitRunning waits until so many pods of the app run.
func (s *scene) awaitRunning(n int, app string) {
	s.Helper()
	s.await(fmt.Sprintf("%d pods of %s to run", n, app), func() bool {
		var list corev1.PodList
		s.must(s.client.List(s.ctx, &list, client.InNamespace(s.name), client.MatchingLabels{"app": app}))
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil {
				running++
			}
		}
		return running == n
	})
}

// protect makes a PodDisruptionBudget that does not let the last pod of the app go.
func (s *scene) protect(app string) *policyv1.PodDisruptionBudget {
	s.Helper()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	s.create(pdb)
	s.await("the budget to be looked at", func() bool { return s.exists(pdb) && pdb.Status.ObservedGeneration == pdb.Generation })
	return pdb
}

// start runs a manager with this reconciler alone, on connections and with a clock of
// its own if given. It ends with the test at the latest.
func (s *scene) start(changes ...func(*rest.Config)) (stop func()) {
	s.Helper()
	cfg := rest.CopyConfig(clustertest.Shared(s).Config)
	cfg.QPS = -1
	for _, change := range changes {
		change(cfg)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: s.client.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), EnableWarmup: ptr.To(true), ReconciliationTimeout: 30 * time.Second},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: fleet.Strip}},
		},
	})
	s.must(err)
	ctx, cancel := context.WithCancel(s.ctx)
	s.must(index.Register(ctx, mgr.GetFieldIndexer()))
	drainer, err := drain.New(mgr.GetConfig(), mgr.GetHTTPClient(), clock.RealClock{})
	s.must(err)
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Drainer: drainer, Clock: clock.RealClock{},
		Events: mgr.GetEventRecorder("test"),
	}
	s.must(r.Loop().Register(mgr))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Logf("the manager ended: %v", err)
		}
	})
	s.Cleanup(stop)
	return stop
}

// stepper is a reconciler that a test calls itself, with a cache that is never behind
// unless the test replaces Client.
type stepper struct {
	*scene
	*Reconciler
	told *events.FakeRecorder
}

func (s *scene) stepper(clk clock.PassiveClock) *stepper {
	s.Helper()
	cfg := rest.CopyConfig(clustertest.Shared(s).Config)
	cfg.QPS = -1
	httpClient, err := rest.HTTPClientFor(cfg)
	s.must(err)
	drainer, err := drain.New(cfg, httpClient, clk)
	s.must(err)
	told := events.NewFakeRecorder(1000)
	return &stepper{s, &Reconciler{
		Client: s.client, Live: s.client, Drainer: drainer, Clock: clk, Events: told,
		backoff: worker.NewBackoff(),
	}, told}
}

// step looks at a node once and returns after how long to look again.
func (s *stepper) step(node string) time.Duration {
	s.Helper()
	result, err := s.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
	s.must(err)
	return result.RequeueAfter
}

// hooked is a client that calls hooks, if there are any.
type hooked struct {
	client.Client
	get   func(obj client.Object)
	list  func(list client.ObjectList)
	patch func(obj client.Object)
}

// showing returns a client whose cache shows a node as it was.
func showing(c client.Client, node *corev1.Node) client.Client {
	return &hooked{Client: c, get: func(obj client.Object) {
		if n, ok := obj.(*corev1.Node); ok {
			node.DeepCopyInto(n)
		}
	}}
}

func (h *hooked) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	err := h.Client.Get(ctx, key, obj, o...)
	if err == nil && h.get != nil {
		h.get(obj)
	}
	return err
}

func (h *hooked) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	err := h.Client.List(ctx, list, o...)
	if err == nil && h.list != nil {
		h.list(list)
	}
	return err
}

func (h *hooked) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.PatchOption) error {
	if h.patch != nil {
		h.patch(obj)
	}
	return h.Client.Patch(ctx, obj, p, o...)
}
