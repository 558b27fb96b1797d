//go:build integration

package integration

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/controller"
)

func TestAStoryIsToldInEvents(t *testing.T) {
	s := newScene(t, "events", 1, "1")
	node := s.nodes[0]
	s.startController()
	s.Eventually(s.limit).Should(BeEquivalentTo(1)) // before, the budget holds back whoever asks
	s.newSickNode()
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
