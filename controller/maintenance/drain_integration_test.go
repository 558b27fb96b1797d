//go:build integration

package maintenance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
)

func inAnHour(onTimeout v1alpha1.OnTimeout) *v1alpha1.Drain {
	return &v1alpha1.Drain{Timeout: v1alpha1.Duration{Duration: time.Hour}, OnTimeout: onTimeout}
}

// template is one for pods on the nodes of the scene.
func (s *scene) template(app string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": app}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"scene": s.name}, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
		},
	}
}

// deployment makes pods on the nodes of the scene, and waits until they run.
func (s *scene) deployment(app string, replicas int32) {
	s.Helper()
	selector, template := s.template(app)
	s.create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: app},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(replicas), Selector: selector, Template: template},
	})
	s.awaitRunning(int(replicas), app)
}

// daemonSet makes a pod on each of the nodes of the scene, and waits until they run.
func (s *scene) daemonSet(app string, nodes int) {
	s.Helper()
	selector, template := s.template(app)
	s.create(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: app},
		Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: template},
	})
	s.awaitRunning(nodes, app)
}

func TestAPersonsMaintenanceDrainsANodeAndGivesItBack(t *testing.T) {
	s := newScene(t, "person")
	node := s.kwokNodes("person-a", 1)[0]
	s.deployment("web", 4)
	s.pod("by-hand", node)
	scratch := s.pod("scratch", node, s.managed, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	s.daemonSet("daemon", 1)
	var daemons corev1.PodList
	s.must(s.client.List(s.ctx, &daemons, client.InNamespace(s.name), client.MatchingLabels{"app": "daemon"}))
	s.kwokNodes("person-b", 1) // takes what is evicted
	s.start()

	s.maintain("dimm", node, inAnHour(v1alpha1.OnTimeoutWait))
	s.awaitMaintenance("dimm", "down to two pods", func(m *v1alpha1.NodeMaintenance) bool {
		return m.Status.Drain != nil && m.Status.Drain.Left == 2
	})
	m := s.maintenance("dimm")
	if d := m.Status.Drain; d.Total != 6 || d.Percent != 66 || m.Status.NodeUID != s.node(node).UID || d.StartedAt.IsZero() {
		t.Errorf("got %+v, %+v", m.Status, d)
	}
	why := map[string]v1alpha1.PodReason{}
	for _, p := range m.Status.Drain.Pods {
		why[p.Namespace+"/"+p.Name] = p.Reason
		if p.Message == "" {
			t.Errorf("pod %s is left and nothing says what helps", p.Name)
		}
	}
	if !maps.Equal(why, map[string]v1alpha1.PodReason{"person/by-hand": v1alpha1.PodUnmanaged, "person/scratch": v1alpha1.PodLocalStorage}) {
		t.Errorf("left: %v", why)
	}
	if c := drainedOf(m); c.Status != "False" || c.Reason != v1alpha1.ReasonDraining || !strings.Contains(c.Message, "4 of 6 pods are gone; left: person/scratch (LocalStorage)") {
		t.Errorf("got %+v", c)
	}
	if !s.out(node) || cordonedOf(m).Reason != v1alpha1.ReasonCordoned {
		t.Errorf("not cordoned: %+v", cordonedOf(m))
	}
	s.awaitRunning(4, "web")

	s.delete(scratch)
	s.delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "by-hand"}})
	m = s.awaitDrained("dimm", v1alpha1.ReasonDrained)
	if d := m.Status.Drain; !m.Drained() || d.Percent != 100 || d.Left != 0 || len(d.Pods) != 0 {
		t.Errorf("got %+v", d)
	}
	if daemon := &daemons.Items[0]; !s.exists(daemon) || daemon.DeletionTimestamp != nil {
		t.Error("the pod of a DaemonSet was evicted")
	}
	s.release("dimm")
	s.expectInService(node)
}

func TestAnEmptyNodeDoesNotWaitBehindABlockedOne(t *testing.T) {
	s := newScene(t, "blocked")
	nodes := s.kwokNodes("blocked", 2)
	s.pod("db-0", nodes[0], s.managed, ofApp("db"))
	s.awaitRunning(1, "db")
	pdb := s.protect("db")
	s.start()
	s.maintain("blocked", nodes[0], inAnHour(v1alpha1.OnTimeoutWait))
	s.awaitMaintenance("blocked", "blocked", func(m *v1alpha1.NodeMaintenance) bool {
		return m.Status.Drain != nil && len(m.Status.Drain.Pods) == 1 && m.Status.Drain.Pods[0].Reason == v1alpha1.PodDisruptionBudget
	})
	s.maintain("empty", nodes[1], inAnHour(v1alpha1.OnTimeoutWait))
	s.awaitDrained("empty", v1alpha1.ReasonDrained)
	if _, drained := s.reasons("blocked"); drained != v1alpha1.ReasonDraining {
		t.Errorf("the blocked one is %s", drained)
	}
	s.delete(pdb)
	s.awaitDrained("blocked", v1alpha1.ReasonDrained)
}

func TestANodeWhosePodsCannotBeListedDelaysNoOther(t *testing.T) {
	s := newScene(t, "hangs")
	s.plainNode("hangs")
	s.plainNode("works")
	hanging := make(chan struct{}, 100)
	var given atomic.Bool // up, by who waits for the pods
	s.start(func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/api/v1/pods" && strings.Contains(req.URL.RawQuery, "hangs") {
					hanging <- struct{}{}
					<-req.Context().Done()
					given.Store(true)
					return nil, req.Context().Err()
				}
				return next.RoundTrip(req)
			})
		})
	})
	s.maintain("hangs", "hangs", inAnHour(v1alpha1.OnTimeoutWait))
	select {
	case <-hanging:
	case <-time.After(patience):
		t.Fatal("the pods were not listed")
	}
	s.maintain("works", "works", inAnHour(v1alpha1.OnTimeoutWait))
	s.awaitDrained("works", v1alpha1.ReasonDrained)
	if given.Load() {
		t.Error("drained only once the pods of the other were given up")
	}
	if !s.out("hangs") {
		t.Error("not cordoned")
	}
}

func TestHundredsOfNodesDrainAtOnce(t *testing.T) {
	const n = 200
	s := newScene(t, "many")
	nodes := s.kwokNodes("many", n)
	all := func(do func(i int)) { workqueue.ParallelizeUntil(s.ctx, 16, n, do) }
	all(func(i int) { s.pod(fmt.Sprintf("p-%d", i), nodes[i], s.managed, ofApp("many")) })
	s.awaitRunning(n, "many")
	s.start()
	began := time.Now()
	all(func(i int) { s.maintain(nodes[i], nodes[i], inAnHour(v1alpha1.OnTimeoutWait)) })
	s.await("all to be drained", func() bool {
		var list v1alpha1.NodeMaintenanceList
		s.must(s.client.List(s.ctx, &list))
		drained := 0
		for i := range list.Items {
			if list.Items[i].Drained() {
				drained++
			}
		}
		return drained == n
	})
	t.Logf("%d nodes with a pod each were drained after %s", n, time.Since(began).Round(100*time.Millisecond))
	began = time.Now()
	s.must(s.client.DeleteAllOf(s.ctx, &v1alpha1.NodeMaintenance{}))
	s.await("all to be gone", func() bool {
		var list v1alpha1.NodeMaintenanceList
		s.must(s.client.List(s.ctx, &list))
		return len(list.Items) == 0
	})
	t.Logf("and given back after %s", time.Since(began).Round(100*time.Millisecond))
	all(func(i int) { s.expectInService(nodes[i]) })
}

func TestAPodThatNeverTerminatesIsReportedAndNotWaitedFor(t *testing.T) {
	s := newScene(t, "stuck")
	node := s.plainNode("stuck")
	pod := s.pod("p", node, s.managed, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/never"} })
	defer s.patch(pod, `{"metadata":{"finalizers":null}}`)
	clk := clocktesting.NewFakePassiveClock(time.Now())
	r := s.stepper(clk)
	how := inAnHour(v1alpha1.OnTimeoutAbort)
	how.GracePeriodSeconds = ptr.To[int64](1)
	s.maintain("stuck", node, how)
	r.step(node)
	r.step(node)
	if m := s.maintenance("stuck"); m.Drained() || m.Status.Drain.Pods[0].Reason != v1alpha1.PodTerminating {
		t.Errorf("got %+v", m.Status.Drain)
	}
	clk.SetTime(time.Now().Add(time.Minute))
	if again := r.step(node); again != 0 {
		t.Errorf("looks again after %s", again)
	}
	m := s.maintenance("stuck")
	if d := m.Status.Drain; !m.Drained() || d.Left != 0 || d.Percent != 100 || len(d.Pods) != 1 || d.Pods[0].Reason != v1alpha1.PodStuckTerminating {
		t.Errorf("got %+v, %+v", drainedOf(m), d)
	}
	if c := drainedOf(m); !strings.Contains(c.Message, "1 were told to end and do not") || !strings.Contains(c.Message, "example.com/never") {
		t.Errorf("got %s", c.Message)
	}
}

func TestADrainThatTakesTooLong(t *testing.T) {
	for onTimeout, want := range map[v1alpha1.OnTimeout]struct {
		reason          string
		drained, evicts bool
	}{
		v1alpha1.OnTimeoutWait:    {v1alpha1.ReasonDrainTimedOut, false, true},
		v1alpha1.OnTimeoutProceed: {v1alpha1.ReasonDrainTimedOut, true, false},
		v1alpha1.OnTimeoutAbort:   {v1alpha1.ReasonDrainAborted, false, false},
	} {
		t.Run(string(onTimeout), func(t *testing.T) {
			s := newScene(t, "late-"+strings.ToLower(string(onTimeout)))
			node := s.kwokNodes(s.name, 1)[0]
			pod := s.pod("db-0", node, s.managed, ofApp("db"))
			s.awaitRunning(1, "db")
			pdb := s.protect("db")
			clk := clocktesting.NewFakePassiveClock(time.Now())
			r := s.stepper(clk)
			s.maintain(s.name, node, inAnHour(onTimeout))
			for _, at := range []time.Duration{0, time.Hour - 2*time.Second} {
				clk.SetTime(clk.Now().Add(at))
				if again := r.step(node); again <= 0 || again > 5*time.Second {
					t.Errorf("looks again after %s", again)
				}
				if _, drained := s.reasons(s.name); drained != v1alpha1.ReasonDraining {
					t.Errorf("%s after %s", drained, at)
				}
			}
			clk.SetTime(clk.Now().Add(2 * time.Second))
			s.delete(pdb)
			r.step(node)
			m := s.maintenance(s.name)
			if c := drainedOf(m); c.Reason != want.reason || m.Drained() != want.drained {
				t.Errorf("got %+v", c)
			}
			clk.SetTime(clk.Now().Add(time.Hour)) // whatever was refused is due
			r.step(node)
			if evicted := !s.exists(pod) || pod.DeletionTimestamp != nil; evicted != want.evicts {
				t.Errorf("evicted after the time is over: %t", evicted)
			}
			if !s.out(node) {
				t.Error("the node does not stay cordoned")
			}
			if onTimeout == v1alpha1.OnTimeoutWait {
				s.await("the pod to be gone", func() bool { return !s.exists(pod) })
				r.step(node)
				s.awaitDrained(s.name, v1alpha1.ReasonDrained)
			}
		})
	}
}

func TestAWrongSelectorIsShownAndMendingItGoesOn(t *testing.T) {
	s := newScene(t, "selector")
	node := s.plainNode("selector")
	s.pod("p", node, s.managed, ofApp("web"))
	s.start()
	how := inAnHour(v1alpha1.OnTimeoutWait)
	how.GracePeriodSeconds = ptr.To[int64](0)
	wrong := *how
	wrong.PodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.LabelRequirement{{Key: "not a key!", Operator: metav1.LabelSelectorOpExists}}}
	m := s.maintain("selector", node, &wrong)
	s.awaitMaintenance("selector", "shown as wrong", func(m *v1alpha1.NodeMaintenance) bool {
		c := drainedOf(m)
		return c.Status == "False" && strings.Contains(c.Message, "podSelector") && strings.Contains(c.Message, "not a key!")
	})
	if !s.out(node) {
		t.Error("not cordoned")
	}
	s.patch(m, `{"spec":{"drain":{"podSelector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}}}`)
	if m := s.awaitDrained("selector", v1alpha1.ReasonDrained); m.Status.Drain.Total != 1 {
		t.Errorf("got %+v", m.Status.Drain)
	}
}

func TestAWrongSelectorDoesNotSlowDownAnotherHoldersDrain(t *testing.T) {
	s := newScene(t, "wrong-beside")
	node := s.plainNode("wrong-beside")
	s.pod("p", node) // unmanaged: stays
	r := s.stepper(clocktesting.NewFakePassiveClock(time.Now()))
	wrong := inAnHour(v1alpha1.OnTimeoutWait)
	wrong.VetoedBy = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.LabelRequirement{{Key: "not a key!", Operator: metav1.LabelSelectorOpExists}}}
	s.maintain("a-wrong", node, wrong)
	s.maintain("b-right", node, inAnHour(v1alpha1.OnTimeoutWait))
	if again := r.step(node); again <= 0 || again > 5*time.Second {
		t.Errorf("looks again after %s", again)
	}
	if c := drainedOf(s.maintenance("a-wrong")); !strings.Contains(c.Message, "vetoedBy") {
		t.Errorf("got %+v", c)
	}
	if d := s.maintenance("b-right").Status.Drain; d == nil || d.Left != 1 {
		t.Errorf("got %+v", d)
	}
}

// countedFirst is a Drainer that looks at what was written before anything is evicted.
type countedFirst struct {
	Drainer
	*scene
	total int32 // at the first eviction
}

func (d *countedFirst) Pass(ctx context.Context, node string, options *v1alpha1.Drain, mayEvict bool) (drain.Result, error) {
	if m := d.maintenance("counted"); mayEvict && d.total == 0 && m.Status.Drain != nil {
		d.total = m.Status.Drain.Total
	}
	return d.Drainer.Pass(ctx, node, options, mayEvict)
}

// The pod of the controller that leads may be the first to go.
func TestWhatThereIsToDrainIsWrittenBeforeAnyOfItGoes(t *testing.T) {
	s := newScene(t, "counted")
	node := s.kwokNodes("counted-a", 1)[0]
	s.deployment("web", 3)
	s.maintain("counted", node, inAnHour(v1alpha1.OnTimeoutWait))
	stepper := s.stepper(clock.RealClock{})
	drainer := &countedFirst{Drainer: stepper.Drainer, scene: s}
	stepper.Drainer = drainer
	stepper.step(node)
	if drainer.total != 3 {
		t.Errorf("when the first pod is evicted, it is written that %d are to go", drainer.total)
	}
}
