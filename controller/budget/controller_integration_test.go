//go:build integration

package budget

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// scene is a reconciler that runs, with a budget for the nodes of the scene.
type scene struct {
	t      *testing.T
	client client.WithWatch
	name   string
	writes atomic.Int32
}

func newScene(t *testing.T, name string, nodes int, spec v1alpha1.RemediationBudgetSpec) *scene {
	t.Helper()
	s := &scene{t: t, client: newClient(t), name: name}
	for i := range nodes {
		s.createNode(i, fmt.Sprintf("r%d", i%2))
	}
	spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"scene": name}}
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	must(t, s.client.Create(t.Context(), b))
	t.Cleanup(func() { _ = s.client.Delete(contextOf(t), b) })
	return s
}

func (s *scene) start() {
	cfg := rest.CopyConfig(clustertest.Shared(s.t).Config)
	cfg.QPS = -1
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme(s.t), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	must(s.t, err)
	ctx, cancel := context.WithCancel(contextOf(s.t))
	must(s.t, index.Register(ctx, mgr.GetFieldIndexer()))
	permits := New(mgr.GetClient(), mgr.GetAPIReader())
	permits.client = counting{mgr.GetClient(), &s.writes}
	nodes, err := fleet.Cached(ctx, mgr.GetCache())
	must(s.t, err)
	stored, err := index.Cached(ctx, mgr.GetCache())
	must(s.t, err)
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Permits: permits, Clock: clock.RealClock{}, Nodes: nodes, Store: stored}
	must(s.t, r.Loop().Register(mgr))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		must(s.t, <-done)
	})
}

// counting counts status writes.
type counting struct {
	client.Client
	writes *atomic.Int32
}

func (c counting) Status() client.SubResourceWriter {
	c.writes.Add(1)
	return c.Client.Status()
}

func (s *scene) node(i int) string { return fmt.Sprintf("%s-%d", s.name, i) }

func (s *scene) createNode(i int, rack string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(i), Labels: map[string]string{"scene": s.name, "rack": rack}}}
	must(s.t, s.client.Create(s.t.Context(), node))
	s.t.Cleanup(func() { _ = s.client.Delete(contextOf(s.t), node) })
	s.ready(i, corev1.ConditionTrue)
}

func (s *scene) patch(i int, status bool, format string, args ...any) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(i)}}
	patch := client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, format, args...))
	if status {
		must(s.t, s.client.Status().Patch(s.t.Context(), node, patch))
	} else {
		must(s.t, s.client.Patch(s.t.Context(), node, patch))
	}
}

func (s *scene) ready(i int, status corev1.ConditionStatus) {
	s.patch(i, true, `{"status": {"conditions": [{"type": "Ready", "status": "%s"}]}}`, status)
}

func (s *scene) remediation(i int, action string) *v1alpha1.Remediation {
	var node corev1.Node
	must(s.t, s.client.Get(s.t.Context(), types.NamespacedName{Name: s.node(i)}, &node))
	r := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: s.node(i) + "-r"},
		Spec: v1alpha1.RemediationSpec{
			NodeName: node.Name, NodeUID: node.UID, Policy: v1alpha1.PolicyReference{Name: "p", UID: "p"},
			Trigger:  v1alpha1.Trigger{Type: "Sick", Status: "True", LastTransitionTime: metav1.Now()},
			Match:    []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True"}},
			Steps:    []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Script: "exit 0"}}},
			Recovery: v1alpha1.Recovery{HealthyFor: v1alpha1.Duration{Duration: time.Minute}},
		},
	}
	must(s.t, s.client.Create(s.t.Context(), r))
	s.t.Cleanup(func() { _ = s.client.Delete(contextOf(s.t), r) })
	r.Status = v1alpha1.RemediationStatus{Step: 1, Attempt: 1, Action: action}
	must(s.t, s.client.Status().Update(s.t.Context(), r))
	return r
}

// eventually waits until the status is as wanted.
func (s *scene) eventually(what string, ok func(*v1alpha1.RemediationBudgetStatus) bool) {
	s.t.Helper()
	var b v1alpha1.RemediationBudget
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, types.NamespacedName{Name: s.name}, &b)
		return err == nil && b.Status.Nodes != nil && ok(&b.Status), err
	})
	if err != nil {
		s.t.Fatalf("%s: %v, the status is %+v", what, err, b.Status)
	}
}

// counts waits until a group has so many nodes, of which so many are healthy and
// unavailable, and so many may be disrupted.
func (s *scene) counts(what, group string, nodes, healthy, unavailable, disruptions int32) {
	s.t.Helper()
	s.eventually(what, func(status *v1alpha1.RemediationBudgetStatus) bool {
		g := status.Groups[group]
		return g.Nodes == nodes && g.Healthy == healthy && g.Unavailable == unavailable && ptr.Deref(g.DisruptionLimit, -1) == disruptions
	})
}

func TestTheStatusFollowsTheNodes(t *testing.T) {
	s := newScene(t, "follow", 6, v1alpha1.RemediationBudgetSpec{
		GroupBy: "rack", MaxUnavailable: ptr.To(intstr.FromInt32(2)), MinHealthy: ptr.To(intstr.FromString("50%")),
		StormCooldown: &v1alpha1.Duration{Duration: time.Second},
	})
	s.start()
	s.counts("counted", "r0", 3, 3, 0, 1)
	s.counts("counted", "r1", 3, 3, 0, 1)
	s.ready(0, corev1.ConditionUnknown)
	s.counts("not Ready", "r0", 3, 2, 1, 0)
	s.ready(0, corev1.ConditionTrue)
	s.counts("Ready again", "r0", 3, 3, 0, 1)
	s.patch(2, false, `{"spec": {"unschedulable": true}}`)
	s.counts("cordoned", "r0", 3, 2, 1, 0)
	s.patch(2, false, `{"metadata": {"labels": {"rack": "r1"}}}`)
	s.counts("moved away", "r0", 2, 2, 0, 1)
	s.counts("moved here", "r1", 4, 3, 1, 1)
	r := s.remediation(0, "")
	s.counts("sick", "r0", 2, 1, 0, 1)
	s.ready(4, corev1.ConditionFalse)
	s.counts("a storm", "r0", 2, 0, 1, 0)
	s.eventually("a storm", func(status *v1alpha1.RemediationBudgetStatus) bool { return status.Groups["r0"].Storm != nil })
	s.ready(4, corev1.ConditionTrue)
	s.counts("the storm is over", "r0", 2, 1, 0, 1)
	now := metav1.Now()
	r.Status.EndTime = &now
	must(t, s.client.Status().Update(t.Context(), r))
	s.counts("recovered", "r0", 2, 2, 0, 1)
	s.ready(0, corev1.ConditionFalse)
	s.counts("not Ready", "r0", 2, 1, 1, 0)
	// It is the last node that was written.
	must(t, s.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(0)}}))
	s.counts("deleted", "r0", 1, 1, 0, 0)
}

func TestABurstOfNodeEventsIsCountedAFewTimes(t *testing.T) {
	const nodes = 100
	s := newScene(t, "storm", nodes, v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromString("10%"))})
	s.start()
	s.eventually("counted", func(status *v1alpha1.RemediationBudgetStatus) bool { return status.Groups["-"].Healthy == nodes })
	before, began := s.writes.Load(), time.Now()
	for i := range nodes {
		s.ready(i, corev1.ConditionFalse)
	}
	s.eventually("counted", func(status *v1alpha1.RemediationBudgetStatus) bool { return status.Groups["-"].Unavailable == nodes })
	most := int32(time.Since(began)/recount) + 2
	if n := s.writes.Load() - before; n > most {
		t.Errorf("%d writes in %s for %d events, want %d at most", n, time.Since(began), nodes, most)
	}
}

func TestAPermitWhoseRemediationIsGoneIsTakenBack(t *testing.T) {
	s := newScene(t, "sweep", 5, v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(9))})
	acting, ended := s.remediation(0, "running"), s.remediation(1, "")
	ended.Status.EndTime = ptr.To(metav1.Now())
	must(t, s.client.Status().Update(t.Context(), ended))
	action := &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "sweep-action"},
		Spec: v1alpha1.NodeActionSpec{
			NodeName: s.node(2), NodeUID: "uid", Remediation: "deleted-while-acting", RemediationUID: "uid",
			Policy: v1alpha1.PolicyReference{Name: "p", UID: "p"}, StepHash: fmt.Sprintf("%064d", 0), Step: 1, Attempt: 1,
			ExpiresAt: metav1.NewTime(time.Now().Add(time.Hour)),
		},
	}
	must(t, s.client.Create(t.Context(), action))
	t.Cleanup(func() { _ = s.client.Delete(contextOf(t), action) })
	var b v1alpha1.RemediationBudget
	must(t, s.client.Get(t.Context(), types.NamespacedName{Name: s.name}, &b))
	b.Status = v1alpha1.RemediationBudgetStatus{Nodes: ptr.To[int32](5), Groups: map[string]v1alpha1.BudgetGroup{"gone": {Permits: map[string]v1alpha1.Permit{
		s.node(0): {Remediation: acting.Name}, s.node(1): {Remediation: ended.Name}, s.node(2): {Remediation: "deleted-while-acting"},
		s.node(3): {Remediation: "deleted"}, "node-that-is-gone": {Remediation: "deleted-long-ago"},
	}}}}
	must(t, s.client.Status().Update(t.Context(), &b))
	s.start()
	s.eventually("swept", func(status *v1alpha1.RemediationBudgetStatus) bool {
		_, former := status.Groups["gone"] // the permits have gone with their nodes
		return !former && len(status.Groups["-"].Permits) == 2 && status.Groups["-"].Nodes == 5
	})
	held := permitsIn(t, s.client, s.name)
	if held[s.node(0)] != acting.Name || held[s.node(2)] != "deleted-while-acting" {
		t.Errorf("permits %v, want those of who acts", held)
	}
}

func TestABudgetWithoutAStatusLearnsWhoActs(t *testing.T) {
	s := newScene(t, "learn", 3, v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromString("50%"))})
	acting := s.remediation(1, "running")
	s.remediation(2, "")
	s.start()
	s.eventually("learned", func(status *v1alpha1.RemediationBudgetStatus) bool { return len(status.Groups["-"].Permits) > 0 })
	if held := permitsIn(t, s.client, s.name); len(held) != 1 || held[s.node(1)] != acting.Name {
		t.Errorf("permits %v, want that of who acts", held)
	}
}
