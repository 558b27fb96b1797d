//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller"
)

func TestARetryOfAnExhaustedRemediationStartsOverOnce(t *testing.T) {
	s := newScene(t, "retry", 1, "1")
	node := s.nodes[0]
	s.newIncurableNode()
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Exhausted"))
	s.Expect(s.lines("runs")).To(Equal(1))

	s.retry(node, "1")
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(2))
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Exhausted"))
	s.retry(node, "1")
	s.Consistently(func() int { return s.lines("runs") }, "2s").Should(Equal(2))
	r := s.remediations(node)[0]
	s.Expect(r.Status.Retried).To(Equal("1"))
	s.Expect(r.Status.History).To(HaveLen(2))
	s.Expect([]bool{r.Status.History[0].Former, r.Status.History[1].Former}).To(Equal([]bool{true, false}))
}

func TestADeletedRemediationIsNotStartedAgainUntilItsTombstoneIsDeleted(t *testing.T) {
	s := newScene(t, "tombstone", 1, "1")
	node := s.nodes[0]
	s.newIncurableNode()
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Exhausted"))
	name := s.remediations(node)[0].Name

	s.deleteRemediation(name)
	s.Eventually(func() []string { return s.names(node) }).Should(ConsistOf(name + "-deleted"))
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal("Deleted"))
	history := s.remediations(node)[0].Status.History
	s.Expect(history).To(HaveLen(1), "the gates still count what was done")
	s.Expect(history[0].Remedy).To(Equal("command"))
	s.Consistently(func() []string { return s.names(node) }, "2s").Should(ConsistOf(name + "-deleted"))
	s.Expect(s.permits()).To(BeEmpty())
	s.Expect(s.actions(node)).To(BeEmpty())

	s.deleteRemediation(name + "-deleted")
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(2), "now it starts over")
}

func TestARemediationDeletedAfterItsConditionFlappedIsNotStartedAgain(t *testing.T) {
	s := newScene(t, "flapped", 1, "1")
	node := s.nodes[0]
	s.label(node, "true")
	policy := s.policy(shell("echo ran >> " + s.path("runs")))
	policy.Spec.Recovery.HealthyFor = duration(time.Hour)
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.touch("sick")
	s.detect(node, "sick")
	s.startController()
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Excluded"))
	name := s.remediations(node)[0].Name
	s.remove("sick")
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Healing"))
	s.touch("sick")
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Excluded"))

	s.deleteRemediation(name)
	s.Eventually(func() []string { return s.names(node) }).Should(ConsistOf(name + "-deleted"))
	s.Consistently(func() []string { return s.names(node) }, "2s").Should(ConsistOf(name + "-deleted"))
}

func TestARemediationDeletedWhileItsCommandRunsWaitsForItsEnd(t *testing.T) {
	s := newScene(t, "again", 1, "1")
	node := s.nodes[0]
	s.newHeldNode()
	s.startController()
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(1))
	name := s.remediations(node)[0].Name

	s.deleteRemediation(name)
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Acting/StillRunning"))
	s.Consistently(func() []string { return s.names(node) }, "1s").Should(ConsistOf(name))
	s.Expect(s.permits()).To(ConsistOf(node))
	s.remove("hold")
	s.Eventually(func() []string { return s.names(node) }).Should(ConsistOf(name + "-deleted"))
	s.Eventually(s.permits).Should(BeEmpty())
	s.Expect(s.lines("runs")).To(Equal(1))
	s.Eventually(func() int { return len(s.actions(node)) }).Should(BeZero())
}

func TestARemediationWhoseNodeIsGoneIsDeletedWithoutATrace(t *testing.T) {
	s := newScene(t, "leaves", 1, "1")
	node := s.nodes[0]
	s.label(node, "true")
	s.policy(shell("true"))
	s.touch("sick")
	stopDetector := s.detect(node, "sick")
	stop := s.startControllerOn(s.cfg)
	s.Eventually(func() string { return s.state(node) }).Should(Equal("Waiting/Excluded"))
	stop()
	stopDetector()
	s.Expect(s.client.Delete(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
	s.deleteRemediation(s.remediations(node)[0].Name)
	s.startController()
	s.Eventually(func() []string { return s.names(node) }).Should(BeEmpty())
}

func TestOnlySoManyEndedRemediationsOfANodeAreKept(t *testing.T) {
	s := newScene(t, "history", 1, "1")
	node := s.nodes[0]
	policy := s.policy(shell("rm " + s.path("sick")))
	policy.Spec.MaxRemediations = &v1alpha1.Rate{Count: 10, Per: duration(time.Minute)} // needs them for a minute
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.startRunners()
	s.spawn("controller", func(ctx context.Context) error {
		return controller.Run(ctx, s.cfg, controller.Options{Registry: prometheus.NewRegistry(), HistoryLimit: 1})
	})
	s.touch("sick")
	s.detect(node, "sick")
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	first := s.remediations(node)[0].Name
	s.touch("sick")
	s.Eventually(func() int { return s.countEnded(node) }).Should(Equal(2), "maxRemediations still counts the first")

	policy.Spec.MaxRemediations = &v1alpha1.Rate{Count: 10, Per: duration(time.Minute)}
	s.Expect(s.client.Delete(s.ctx, policy)).To(Succeed())
	s.create(&v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: policy.Spec})
	s.touch("sick")
	s.Eventually(func() []string { return s.names(node) }).Should(And(HaveLen(1), Not(ContainElement(first))))
	s.Eventually(func() int { return len(s.actions(node)) }).Should(Equal(1), "actions go with their remediation")
}

func TestAStoryIsToldInEvents(t *testing.T) {
	s := newScene(t, "events", 1, "1")
	node := s.nodes[0]
	s.newSickNode()
	s.startController()
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	uid := string(s.remediations(node)[0].UID)
	s.Eventually(func() []string { return s.told(uid) }).Should(ConsistOf(
		"RemediationStarted", "ActionStarted", "ActionFinished", "RemediationRecovered"))
	s.Eventually(func() []string { return s.told(node) }).Should(ContainElements("RemediationStarted", "RemediationRecovered"))
}

func TestTheLogOfAStoryIsShort(t *testing.T) {
	s := newScene(t, "log", 1, "1")
	node := s.nodes[0]
	log := &lines{}
	logger := logr.FromSlogHandler(slog.NewJSONHandler(log, nil))
	s.newSickNode()
	s.spawn("controller", func(ctx context.Context) error {
		return controller.Run(logr.NewContext(ctx, logger), s.cfg, controller.Options{Registry: prometheus.NewRegistry()})
	})
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Eventually(s.permits).Should(BeEmpty())
	about := log.about(node)
	t.Logf("%d bytes:\n%s", len(about), about)
	s.Expect(len(about)).To(And(BeNumerically(">", 200), BeNumerically("<=", 4<<10)))
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// about returns the lines that contain the text.
func (l *lines) about(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var about strings.Builder
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, text) {
			about.WriteString(line)
		}
	}
	return about.String()
}

// deleted: a person deletes the remediation as soon as it acts.
var deleted = story{
	name: "delete",
	begin: func(s *scene) {
		s.newIncurableNode()
		s.spawn("person", func(ctx context.Context) error { return s.deleteOnceItActs(ctx, s.nodes[0]) })
	},
	goOn:   func(s *scene) bool { return s.buried(s.nodes[0]) },
	midway: func(s *scene) bool { return len(s.names(s.nodes[0])) > 0 },
	expect: func(s *scene) {
		s.Eventually(s.permits).Should(BeEmpty())
		s.Expect(s.lines("runs")).To(BeNumerically("<=", 1), "executions")
	},
}

// deleteOnceItActs deletes the node's remediation when it has announced an action.
func (s *scene) deleteOnceItActs(ctx context.Context, node string) error {
	watcher, err := s.client.Watch(ctx, &v1alpha1.RemediationList{}, client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.ResultChan():
			r, ok := event.Object.(*v1alpha1.Remediation)
			if ok && r.Status.Action != "" {
				return client.IgnoreNotFound(s.client.Delete(ctx, r))
			}
		}
	}
}

// buried reports whether the node has nothing but a tombstone that has ended, and no
// permit and no action.
func (s *scene) buried(node string) bool {
	names := s.names(node)
	return len(names) == 1 && strings.HasSuffix(names[0], "-deleted") && s.ended(node) && len(s.permits()) == 0 && len(s.actions(node)) == 0
}

func (s *scene) names(node string) []string {
	var names []string
	for _, r := range s.remediations(node) {
		names = append(names, r.Name)
	}
	return names
}

func (s *scene) countEnded(node string) (n int) {
	for _, r := range s.remediations(node) {
		if r.Ended() {
			n++
		}
	}
	return n
}

func (s *scene) deleteRemediation(name string) {
	s.t.Helper()
	s.Expect(s.client.Delete(s.ctx, &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// retry annotates the node's only remediation.
func (s *scene) retry(node, value string) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.RetryAnnotation: value}}})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.client.Patch(s.ctx, &s.remediations(node)[0], client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// told returns the reasons of the controller's events about the object of this UID.
func (s *scene) told(uid string) (reasons []string) {
	var events corev1.EventList
	s.Expect(s.client.List(s.ctx, &events, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.uid": uid})).To(Succeed())
	for _, e := range events.Items {
		if e.ReportingController == "nodemend-controller" {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}
