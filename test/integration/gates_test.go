//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// reboot is a disruptive step, which no runner executes here.
func reboot() v1alpha1.Step {
	step := shell("")
	step.Command, step.Reboot = nil, &v1alpha1.RebootRemedy{}
	return step
}

// change patches an object of the scene's name.
func (s *scene) change(obj client.Object, patch string) {
	s.t.Helper()
	obj.SetName(s.name)
	s.Expect(s.client.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// annotate annotates the node's only remediation.
func (s *scene) annotate(node, key, value string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	s.Expect(s.client.Patch(s.ctx, &s.remediations(node)[0], client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// ready sets the Ready condition of nodes.
func (s *scene) ready(status corev1.ConditionStatus, nodes ...string) {
	s.t.Helper()
	for _, node := range nodes {
		s.Expect(s.report(s.ctx, node, "Ready", status, time.Now(), time.Now())).To(Succeed())
	}
}

func TestEachHoldEndsWhenItsReasonIsGone(t *testing.T) {
	closed := time.Now().UTC().Add(6 * time.Hour).Format("15:04")
	later := time.Now().UTC().Add(7 * time.Hour).Format("15:04")
	for _, test := range []struct {
		name, budget, policy string // patches of their specs that hold
		reason               string
		release              func(*scene)
	}{
		{
			name: "paused", budget: `{"spec":{"paused":true}}`, reason: "Paused",
			release: func(s *scene) { s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"paused":false}}`) },
		},
		{
			name: "dryrun", policy: `{"spec":{"mode":"DryRun"}}`, reason: "DryRun",
			release: func(s *scene) { s.change(&v1alpha1.RemedyPolicy{}, `{"spec":{"mode":"Enforce"}}`) },
		},
		{
			name: "joining", policy: `{"spec":{"delayAfterJoin":"720h"}}`, reason: "Joining",
			release: func(s *scene) { s.change(&v1alpha1.RemedyPolicy{}, `{"spec":{"delayAfterJoin":"0s"}}`) },
		},
		{
			name: "window", reason: "OutsideWindow",
			budget:  fmt.Sprintf(`{"spec":{"allowedWindows":[{"start":%q,"end":%q}]}}`, closed, later),
			release: func(s *scene) { s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"allowedWindows":null}}`) },
		},
		{
			name: "unavailable", budget: `{"spec":{"maxUnavailable":0}}`, reason: "DisruptionLimit",
			release: func(s *scene) { s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"maxUnavailable":1}}`) },
		},
		{
			name: "cordoned", reason: "Cordoned",
			release: func(s *scene) {
				s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.nodes[0]}},
					client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`)))).To(Succeed())
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, "hold-"+test.name, 3, "1")
			s.ready(corev1.ConditionTrue, s.nodes...)
			s.policy(reboot())
			if test.budget != "" {
				s.change(&v1alpha1.RemediationBudget{}, test.budget)
			}
			if test.policy != "" {
				s.change(&v1alpha1.RemedyPolicy{}, test.policy)
			}
			node := s.nodes[0]
			if test.name == "cordoned" {
				s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
					client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
			}
			s.touch("sick")
			s.detect(node, "sick")
			s.startController()
			s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/" + test.reason))
			s.Expect(s.permits()).To(BeEmpty(), "while blocked it holds no permit")
			s.Expect(s.actions(node)).To(BeEmpty())
			test.release(s)
			s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1))
		})
	}
}

func TestAStepWaitsForItsApproval(t *testing.T) {
	s := newScene(t, "approval", 1, "1")
	step := reboot()
	step.RequireApproval = true
	s.ready(corev1.ConditionTrue, s.nodes...)
	s.policy(step)
	node := s.nodes[0]
	s.touch("sick")
	s.detect(node, "sick")
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/" + gates.ReasonApprovalRequired))
	s.annotate(node, v1alpha1.ApprovedStepAnnotation, "1")
	s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1))
}

func TestAStormHoldsDisruptiveStepsUntilItHasBeenCalm(t *testing.T) {
	s := newScene(t, "storm", 5, "5")
	s.ready(corev1.ConditionTrue, s.nodes...)
	s.policy(reboot())
	s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"minHealthy":"60%","stormCooldown":"3s"}}`)
	s.startController()
	s.ready(corev1.ConditionFalse, s.nodes[2:]...) // two of five are healthy
	group := func() v1alpha1.BudgetGroup {
		var b v1alpha1.RemediationBudget
		s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: s.name}, &b)).To(Succeed())
		return b.Status.Groups[v1alpha1.UngroupedNodes]
	}
	s.Eventually(func() *v1alpha1.Storm { return group().Storm }).ShouldNot(BeNil())

	node := s.nodes[0]
	s.touch("sick")
	s.detect(node, "sick")
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/" + gates.ReasonStorm))
	calm := time.Now()
	s.ready(corev1.ConditionTrue, s.nodes[2:]...)
	s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1))
	s.Expect(time.Since(calm)).To(BeNumerically(">=", 2*time.Second), "calm for 3 s, in whole seconds")
}

func TestAHundredSickNodesAreHealedWithinTheBudget(t *testing.T) {
	const nodes, allowed = 100, 20
	s := newScene(t, "many", nodes, fmt.Sprint(allowed))
	s.policy(shell("true"))
	watcher, err := s.client.Watch(s.ctx, &v1alpha1.RemediationBudgetList{})
	s.Expect(err).NotTo(HaveOccurred())
	defer watcher.Stop()
	w := &ward{began: time.Now(), healed: map[string]time.Time{}, recovered: map[string]bool{}}
	s.Expect(w.report(s, s.nodes...)).To(Succeed())
	s.spawn("runners", func(ctx context.Context) error { return w.heal(ctx, s) })
	s.spawn("detectors", func(ctx context.Context) error { return w.look(ctx, s) })
	s.startController()

	most, acted := 0, map[string]bool{}
	hang := time.After(patience)
	for len(acted) < nodes {
		select {
		case event := <-watcher.ResultChan():
			permits := event.Object.(*v1alpha1.RemediationBudget).Status.Groups[v1alpha1.UngroupedNodes].Permits
			most = max(most, len(permits))
			for node := range permits {
				acted[node] = true
			}
		case <-hang:
			t.Fatalf("only %d nodes were acted on", len(acted))
		}
	}
	s.Expect(most).To(BeNumerically("<=", allowed))
	s.Eventually(func() int { return w.update(s.ctx, s) }).WithPolling(time.Second).Should(Equal(nodes))
	s.Eventually(s.permits).Should(BeEmpty())
	t.Logf("%d nodes were healed after %s, at most %d at once", nodes, time.Since(w.began).Round(time.Second), most)
}

// ward is a scene of sick nodes, with all runners and detectors: an action is claimed and
// executed, and helps.
type ward struct {
	began time.Time

	mu sync.Mutex
	// healed is when an action helped the node, recovered whether its remediation is over.
	healed    map[string]time.Time
	recovered map[string]bool
}

// heal executes actions.
func (w *ward) heal(ctx context.Context, s *scene) error {
	actions, err := s.client.Watch(ctx, &v1alpha1.NodeActionList{})
	if err != nil {
		return err
	}
	defer actions.Stop()
	done := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-actions.ResultChan():
			action, ok := event.Object.(*v1alpha1.NodeAction)
			if !ok || done[action.Name] {
				continue
			}
			done[action.Name] = true
			if err := s.play(ctx, action); apierrors.IsConflict(err) {
				continue // it was cancelled, since nobody had claimed it for long
			} else if err != nil {
				return err
			}
			w.mu.Lock()
			w.healed[action.Spec.NodeName] = time.Now()
			w.mu.Unlock()
		}
	}
}

// look reports about the nodes that were healed until their remediations are over, and
// about the sick ones often enough for what they say to count.
func (w *ward) look(ctx context.Context, s *scene) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		}
		w.update(ctx, s)
		w.mu.Lock()
		var nodes []string
		for _, node := range s.nodes {
			if _, well := w.healed[node]; well && !w.recovered[node] || !well && i%30 == 0 {
				nodes = append(nodes, node)
			}
		}
		w.mu.Unlock()
		if err := w.report(s, nodes...); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// update finds out whose remediations are over, and returns how many there are.
func (w *ward) update(ctx context.Context, s *scene) int {
	var list v1alpha1.RemediationList
	s.Expect(s.client.List(context.WithoutCancel(ctx), &list)).To(Succeed())
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range list.Items {
		if list.Items[i].State() == v1alpha1.ReasonRecovered {
			w.recovered[list.Items[i].Spec.NodeName] = true
		}
	}
	return len(w.recovered)
}

// report reports about nodes, several at a time.
func (w *ward) report(s *scene, nodes ...string) error {
	var group sync.WaitGroup
	errs := make([]error, 16)
	for worker := range errs {
		group.Go(func() {
			for i := worker; i < len(nodes); i += len(errs) {
				w.mu.Lock()
				since, well := w.healed[nodes[i]]
				w.mu.Unlock()
				status := corev1.ConditionFalse
				if !well {
					status, since = corev1.ConditionTrue, w.began
				}
				errs[worker] = errors.Join(errs[worker], s.report(s.ctx, nodes[i], sick, status, time.Now(), since))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// play claims and finishes an action as its runner would.
func (s *scene) play(ctx context.Context, action *v1alpha1.NodeAction) error {
	action = action.DeepCopy()
	if err := s.claim(ctx, action); err != nil {
		return err
	}
	return s.finish(ctx, action)
}

// claim claims an action; it fails with a conflict if it was changed.
func (s *scene) claim(ctx context.Context, action *v1alpha1.NodeAction) error {
	action.Status.Claim = &v1alpha1.Claim{RunnerID: "test", BootID: "boot", Time: metav1.Now(), Remedy: v1alpha1.RemedyCommand}
	return s.client.Status().Update(ctx, action)
}

// finish finishes an action that was claimed.
func (s *scene) finish(ctx context.Context, action *v1alpha1.NodeAction) error {
	action.Status.Result = &v1alpha1.ActionResult{StartedAt: metav1.NowMicro(), FinishedAt: metav1.NowMicro(), ExitCode: ptr.To[int32](0)}
	meta.SetStatusCondition(&action.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: "exit status 0",
	})
	return s.client.Status().Update(ctx, action)
}

func TestANodeThatFailsForEverHoldsUpNoOther(t *testing.T) {
	const nodes = 8
	s := newScene(t, "broken", nodes, "8")
	s.policy(shell("true"))
	for _, node := range s.nodes {
		s.touch("sick-" + node)
		s.detect(node, "sick-"+node)
	}
	broken := s.nodes[0]
	cfg := rest.CopyConfig(s.cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/"+broken+"-") {
				return nil, errors.New("refused by the test")
			}
			return next.RoundTrip(req)
		})
	})
	s.startControllerOn(cfg)
	for _, node := range s.nodes[1:] {
		s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1), node)
	}
	s.Expect(s.actions(broken)).To(BeEmpty())
}
