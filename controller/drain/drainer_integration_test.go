//go:build integration

package drain

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// protect makes a PodDisruptionBudget that keeps one pod of the app web.
func (s *scene) protect(name string) {
	s.Helper()
	_, err := s.client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(s.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: selecting("app", "web").LabelSelector()},
	}, metav1.CreateOptions{})
	s.must(err)
	s.await("the budget "+name, func() bool {
		b, err := s.client.PolicyV1().PodDisruptionBudgets(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
		s.must(err)
		return b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 1
	})
}

func TestABudgetHoldsOnePodUntilAnotherReplicaIsReady(t *testing.T) {
	s := newScene(t, "budget", 2)
	web := labelled("app", "web")
	s.create("web-1", s.nodes[0], web)
	s.create("other-1", s.nodes[0])
	s.create("other-2", s.nodes[0], storage)
	s.awaitRunning("web-1", "other-1", "other-2")
	s.protect("web")
	d := s.drainer(clock.RealClock{}, nil)
	options := &v1alpha1.Drain{DeleteEmptyDirData: true}
	r := s.drain(d, s.nodes[0], options, func(r Result) bool { return r.Left == 1 })
	if p := r.Pods[0]; p.Name != "web-1" || p.Reason != v1alpha1.PodDisruptionBudget || !strings.Contains(p.Message, "web needs 1 healthy pods and has 1") {
		t.Errorf("left: %+v", p)
	}
	if r := s.drain(d, s.nodes[1], options, done); r.Left != 0 {
		t.Errorf("the empty node is left with %+v", r)
	}
	s.create("web-2", s.nodes[1], web)
	s.drain(d, s.nodes[0], options, done)
	if s.pod("web-1") != nil || s.pod("web-2") == nil {
		t.Error("web-1 is still there, or web-2 is gone")
	}
}

func TestTwoBudgetsOfAPodAreReported(t *testing.T) {
	s := newScene(t, "two-budgets", 1)
	s.create("web", s.nodes[0], labelled("app", "web"))
	s.awaitRunning("web")
	s.protect("one")
	s.protect("two")
	r := s.pass(s.drainer(clock.RealClock{}, nil), s.nodes[0], &v1alpha1.Drain{})
	if p := r.Pods[0]; p.Reason != v1alpha1.PodEvictionFailed || !strings.Contains(p.Message, "more than one PodDisruptionBudget") {
		t.Errorf("left: %+v", p)
	}
}

// beforeEviction calls hook once, before the first eviction is sent.
type beforeEviction struct {
	http.RoundTripper
	once sync.Once
	hook func()
}

func (b *beforeEviction) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPost {
		b.once.Do(b.hook)
	}
	return b.RoundTripper.RoundTrip(request)
}

func (s *scene) drainerWith(hook func()) *Drainer {
	return s.drainer(clock.RealClock{}, func(cfg *rest.Config) {
		cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &beforeEviction{RoundTripper: rt, hook: hook} })
	})
}

func TestANewPodOfTheSameNameIsNotEvicted(t *testing.T) {
	s := newScene(t, "same-name", 1)
	// Of a node that kwok does not play: it ends pods by their names, so the new one for the old one.
	const node = "nobody-plays-it"
	s.create("db-0", node)
	d := s.drainerWith(func() {
		forceDelete(s, "db-0")
		s.create("db-0", s.nodes[0])
		s.awaitRunning("db-0")
	})
	if r := s.pass(d, node, &v1alpha1.Drain{}); r.Left != 0 || r.Done {
		t.Errorf("got %+v", r)
	}
	if pod := s.pod("db-0"); pod == nil || pod.DeletionTimestamp != nil {
		t.Errorf("the new pod was evicted: %v", pod)
	}
	if r := s.pass(d, node, &v1alpha1.Drain{}); !r.Done {
		t.Errorf("got %+v", r)
	}
}

func TestAPodInANamespaceThatIsDeletedIsAwaited(t *testing.T) {
	s := newScene(t, "going", 1)
	s.create("p", s.nodes[0], finalized)
	s.awaitRunning("p")
	d := s.drainerWith(func() {
		s.must(s.client.CoreV1().Namespaces().Delete(s.ctx, s.namespace, metav1.DeleteOptions{}))
		s.await("the namespace to be closed", func() bool {
			_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{})
			return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
		})
	})
	r := s.pass(d, s.nodes[0], &v1alpha1.Drain{})
	if r.Left != 1 || r.Pods[0].Reason != v1alpha1.PodTerminating || !strings.Contains(r.Pods[0].Message, "namespace") {
		t.Errorf("got %+v", r)
	}
	s.await("the pod to be deleted with it", func() bool { return s.pod("p").DeletionTimestamp != nil })
	patchFinalizers(s, "p", "null")
	s.drain(d, s.nodes[0], &v1alpha1.Drain{}, done)
}

func TestFiftyPodsAreEvictedInOnePass(t *testing.T) {
	s := newScene(t, "fifty", 1)
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("p-%d", i))
		s.create(names[i], s.nodes[0])
	}
	s.awaitRunning(names...)
	d := s.drainer(clock.RealClock{}, nil)
	if r := s.pass(d, s.nodes[0], &v1alpha1.Drain{}); r.Left != 50 || len(r.Pods) != 32 {
		t.Errorf("left %d, listed %d", r.Left, len(r.Pods))
	}
	for _, name := range names {
		if pod := s.pod(name); pod != nil && pod.DeletionTimestamp == nil {
			t.Errorf("pod %s was not told to end", name)
		}
	}
	s.drain(d, s.nodes[0], &v1alpha1.Drain{}, done)
}

func TestAPodThatNeverEndsIsStuckInTheEnd(t *testing.T) {
	s := newScene(t, "stuck", 1)
	s.create("p", s.nodes[0], finalized)
	s.create("daemon", s.nodes[0], daemon, func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = s.owner.UID })
	s.awaitRunning("p")
	clk := clocktesting.NewFakeClock(time.Now())
	d := s.drainer(clk, nil)
	options := &v1alpha1.Drain{GracePeriodSeconds: ptr.To[int64](1)}
	s.pass(d, s.nodes[0], options)
	if r := s.pass(d, s.nodes[0], options); r.Done || reasons(r)["p"] != v1alpha1.PodTerminating || r.Left != 1 {
		t.Errorf("got %+v", r)
	}
	clk.Step(time.Minute)
	r := s.pass(d, s.nodes[0], options)
	if !r.Done || r.Stuck != 1 || reasons(r)["p"] != v1alpha1.PodStuckTerminating || !strings.Contains(r.Pods[0].Message, "example.com/a") {
		t.Errorf("got %+v", r)
	}
	patchFinalizers(s, "p", "null")
}

func TestPodsThatNoBudgetConcernsGoDespiteOne(t *testing.T) {
	s := newScene(t, "no-budget", 1)
	web := labelled("app", "web")
	s.create("running", s.nodes[0], web)
	s.awaitRunning("running")
	s.protect("web")
	s.create("finished", s.nodes[0], web)
	s.awaitRunning("finished")
	_, err := s.client.CoreV1().Pods(s.namespace).Patch(s.ctx, "finished", "application/merge-patch+json",
		[]byte(`{"status":{"phase":"Succeeded","conditions":null}}`), metav1.PatchOptions{}, "status")
	s.must(err)
	s.await("the budget to see that it has finished", func() bool {
		b, err := s.client.PolicyV1().PodDisruptionBudgets(s.namespace).Get(s.ctx, "web", metav1.GetOptions{})
		s.must(err)
		return b.Status.DisruptionsAllowed == 0
	})
	r := s.drain(s.drainer(clock.RealClock{}, nil), s.nodes[0], &v1alpha1.Drain{}, func(r Result) bool { return r.Left == 1 })
	if reasons(r)["running"] != v1alpha1.PodDisruptionBudget || s.pod("finished") != nil {
		t.Errorf("got %+v", r)
	}
}
