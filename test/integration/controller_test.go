//go:build integration

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAStepThatDoesNotHelpIsFollowedByTheNext(t *testing.T) {
	s := newScene(t, "escalate", 1, "1")
	node := s.nodes[0]
	useless := shell("echo ran >> " + s.path("first"))
	useless.Attempts = 2
	s.policy(useless, shell("echo ran >> "+s.path("second")))
	s.touch("sick")
	s.detect(node, "sick")
	s.startRunners()
	s.startController()

	s.Eventually(func() string { return s.state(node) }).Should(Equal("Exhausted"))
	s.Expect(s.lines("first")).To(Equal(2))
	s.Expect(s.lines("second")).To(Equal(1))
	s.Eventually(s.permits).Should(BeEmpty(), "an exhausted remediation holds no permit")

	s.Expect(s.ended(node)).To(BeFalse(), "it stays open while the fault is there")
	s.remove("sick")
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal("Recovered"))
	history := s.remediations(node)[0].Status.History
	s.Expect(history).To(HaveLen(3))
	for i, want := range []v1alpha1.ActionRecord{{Step: 1, Attempt: 1}, {Step: 1, Attempt: 2}, {Step: 2, Attempt: 1}} {
		s.Expect([]int32{history[i].Step, history[i].Attempt}).To(Equal([]int32{want.Step, want.Attempt}))
		s.Expect(history[i].Outcome).To(Equal(v1alpha1.ReasonSucceeded))
	}
}

func TestABudgetIsNeverExceeded(t *testing.T) {
	const nodes, allowed = 6, 2
	s := newScene(t, "budget", nodes, "34%") // 2.04 of 6
	s.policy(shell("true"))
	watcher, err := s.client.Watch(s.ctx, &v1alpha1.RemediationBudgetList{})
	s.Expect(err).NotTo(HaveOccurred())
	defer watcher.Stop()
	for _, node := range s.nodes {
		s.touch("sick-" + node)
		s.detect(node, "sick-"+node)
	}
	s.startRunners()
	s.startController()

	most, acted := 0, map[string]bool{}
	for len(acted) < nodes {
		event := <-watcher.ResultChan()
		b := event.Object.(*v1alpha1.RemediationBudget)
		most = max(most, len(b.Status.Groups[v1alpha1.UngroupedNodes].Permits))
		for node := range b.Status.Groups[v1alpha1.UngroupedNodes].Permits {
			if !acted[node] {
				acted[node] = true
				s.remove("sick-" + node) // it recovers while it is acted on
			}
		}
	}
	s.Expect(most).To(BeNumerically("<=", allowed))
	for _, node := range s.nodes {
		s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	}
	s.Eventually(s.permits).Should(BeEmpty())
}

func TestWithoutEvidenceNothingMoreIsDone(t *testing.T) {
	s := newScene(t, "evidence", 1, "1")
	node := s.nodes[0]
	s.policy(shell("echo ran >> "+s.path("first")), shell("rm "+s.path("sick")))
	s.touch("sick")
	stopDetector := s.detect(node, "sick")
	s.startController()
	s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1))
	stopDetector() // from here on nobody has seen anything
	s.startRunners()

	s.Eventually(func() string { return s.state(node) }).Should(Equal("Verifying/NoEvidence"))
	s.Eventually(s.permits).Should(BeEmpty(), "a blocked remediation holds no permit")
	s.Expect(s.actions(node)).To(HaveLen(1))

	s.detect(node, "sick")
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal("Recovered"))
	s.Expect(s.lines("first")).To(Equal(1))
}

func TestAnExcludedNodeIsLeftAloneUntilItIsIncluded(t *testing.T) {
	s := newScene(t, "exclude", 1, "1")
	node := s.nodes[0]
	s.label(node, "true")
	s.policy(shell("rm " + s.path("sick")))
	s.touch("sick")
	s.detect(node, "sick")
	s.startRunners()
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Excluded"))
	s.Expect(s.actions(node)).To(BeEmpty())

	s.label(node, "false")
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal("Recovered"))
}

func TestANodeWithoutABudgetIsLeftAlone(t *testing.T) {
	s := newScene(t, "nobudget", 1, "1")
	node := s.nodes[0]
	s.Expect(s.client.Delete(s.ctx, &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: s.name}})).To(Succeed())
	s.policy(shell("rm " + s.path("sick")))
	s.touch("sick")
	s.detect(node, "sick")
	s.startRunners()
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/NoBudget"))

	s.create(&v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue(), "a new budget wakes who waits for one")
}

func TestAnEditedPolicyHoldsWhatItStartedAndStillGivesTheNodeBack(t *testing.T) {
	s := newScene(t, "edited", 1, "1")
	node := s.nodes[0]
	s.label(node, "true")
	policy := s.policy(shell("echo ran >> " + s.path("old")))
	s.touch("sick")
	s.detect(node, "sick")
	s.startRunners()
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Excluded"))

	policy.Spec.Steps = []v1alpha1.Step{shell("echo ran >> " + s.path("new"))}
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.label(node, "false")
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Superseded"))

	s.remove("sick")
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal("RecoveredByItself"))
	s.Expect(s.lines("old") + s.lines("new")).To(BeZero())
}

func TestADeletedRemediationGivesItsPermitBackOnceNothingRuns(t *testing.T) {
	s := newScene(t, "deleted", 1, "1")
	node := s.nodes[0]
	policy := s.policy(shell("touch " + s.path("started") + "; while [ -e " + s.path("hold") + " ]; do :; done"))
	s.touch("sick")
	s.touch("hold")
	s.detect(node, "sick")
	s.startRunners()
	s.startController()
	s.Eventually(s.path("started")).Should(BeAnExistingFile())

	s.Expect(s.client.Delete(s.ctx, policy)).To(Succeed()) // or it would start again
	s.Expect(s.client.DeleteAllOf(s.ctx, &v1alpha1.Remediation{})).To(Succeed())
	s.Consistently(s.permits, "1s").Should(ConsistOf(node), "the command still runs")
	s.remove("hold")
	s.Eventually(s.permits).Should(BeEmpty())
	s.Eventually(func() int { return len(s.actions(node)) }).Should(BeZero())
}

func TestADeletedNodeEndsItsRemediation(t *testing.T) {
	s := newScene(t, "gone", 1, "1")
	node := s.nodes[0]
	s.policy(shell("true"))
	s.touch("sick")
	stopDetector := s.detect(node, "sick")
	s.startController() // no runner: the action waits
	s.Eventually(s.permits).Should(ConsistOf(node))
	stopDetector()
	s.Expect(s.client.Delete(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())

	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal("NodeGone"))
	s.Eventually(s.permits).Should(BeEmpty())
}

func TestALostNodeActionIsNotRepeated(t *testing.T) {
	s := newScene(t, "lost", 1, "1")
	node := s.nodes[0]
	s.policy(shell("echo ran >> " + s.path("runs")))
	s.touch("sick")
	s.detect(node, "sick")
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Acting"))
	s.Expect(s.client.DeleteAllOf(s.ctx, &v1alpha1.NodeAction{})).To(Succeed())

	s.Eventually(func() string { return s.state(node) }).Should(Equal("Acting/StillRunning"))
	s.startRunners()
	s.Consistently(s.permits, "1s").Should(ConsistOf(node), "the command may be running")
	s.Expect(s.actions(node)).To(BeEmpty())
	s.Expect(s.lines("runs")).To(BeZero())
}

func TestTwoConditionsOfOnePolicyAreOneRemediation(t *testing.T) {
	s := newScene(t, "two", 12, "100%")
	policy := s.policy(shell("echo ran >> " + s.path("runs")))
	policy.Spec.Match = append(policy.Spec.Match, v1alpha1.ConditionMatch{Type: "Ill", Status: corev1.ConditionTrue})
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.startRunners()
	s.startController()
	now := time.Now()
	for _, node := range s.nodes {
		// The one that is written later has been there for longer.
		s.Expect(s.report(s.ctx, node, sick, corev1.ConditionTrue, now, now)).To(Succeed())
		s.Expect(s.report(s.ctx, node, "Ill", corev1.ConditionTrue, now, now.Add(-time.Minute))).To(Succeed())
	}
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(len(s.nodes)))
	for _, node := range s.nodes {
		s.Expect(s.remediations(node)).To(HaveLen(1))
	}
}

func TestAFailureOnOnePolicyDoesNotDelayAnother(t *testing.T) {
	s := newScene(t, "others", 1, "1")
	node := s.nodes[0]
	first := s.policy(shell("true"))
	s.touch("sick")
	s.detect(node, "sick")
	// The API server refuses the remediations of one policy.
	broken := first.DeepCopy()
	broken.ObjectMeta = metav1.ObjectMeta{Name: "a-" + s.name}
	s.create(broken)
	transport := &refusing{what: "/remediations", containing: `"name":"` + broken.Name + `"`}
	cfg := rest.CopyConfig(s.cfg)
	cfg.ContentType = "application/json"
	cfg.Wrap(transport.wrap)
	s.startControllerOn(cfg)
	s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1))
	s.Expect(s.remediations(node)[0].Spec.Policy.Name).To(Equal(first.Name))
}

// label sets the exclude label of a node.
func (s *scene) label(node, value string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.ExcludeLabel, value)
	s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// refusing fails the creation of what is named.
type refusing struct{ what, containing string }

func (r *refusing) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, r.what) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			if bytes.Contains(body, []byte(r.containing)) {
				return nil, errors.New("refused by the test")
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
