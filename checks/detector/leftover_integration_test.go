//go:build integration

package detector_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// export runs an exporter of a detector whose configuration names these conditions,
// and lets it see them, until the returned function is called.
func (s *scene) export(t *testing.T, clock *clocktesting.FakeClock, named ...corev1.NodeConditionType) (stop func()) {
	t.Helper()
	core, err := corev1client.NewForConfig(clustertest.Shared(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	e, err := exporter.New(core.RESTClient(), exporter.Options{
		NodeName: s.name, Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second, Named: named,
		Clock: clock, Rand: func() float64 { return 0.5 }, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	report := &checks.Report{Source: "test"}
	for _, c := range named {
		report.Observations = append(report.Observations, checks.Observation{Type: string(c), Status: checks.True, Reason: "Broken", At: clock.Now()})
	}
	e.Take(report)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyConditionsThatTheDetectorAloneHasWrittenAreRemoved(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "leftover")
	// Of an object without any field that somebody owns, owners are never recorded.
	node, err := s.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: s.name, Labels: map[string]string{"any": "field"},
	}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	node.Status.Conditions = []corev1.NodeCondition{{Type: "OfAnother", Status: corev1.ConditionTrue, LastHeartbeatTime: ago(time.Hour)}}
	_, err = s.nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	has := func() (all []string, err error) {
		node, err := s.nodes.Get(t.Context(), s.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, c := range node.Status.Conditions {
			all = append(all, string(c.Type))
		}
		slices.Sort(all)
		return all, nil
	}
	clock := clocktesting.NewFakeClock(time.Now().Add(-time.Hour))
	stop := s.export(t, clock, "Former", "Shared", "Kept")
	g.Eventually(has, patience).Should(Equal([]string{"Former", "Kept", "OfAnother", "Shared"}))
	stop()
	_, err = s.nodes.Patch(t.Context(), s.name, types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Shared","reason":"Another"}]}}`), metav1.PatchOptions{FieldManager: "another"}, "status")
	g.Expect(err).NotTo(HaveOccurred())

	clock.SetTime(time.Now())
	stop = s.export(t, clock, "Kept")
	defer stop()
	g.Eventually(func() ([]string, error) {
		clock.Step(time.Minute)
		return has()
	}, patience).Should(Equal([]string{"Kept", "OfAnother", "Shared"}))
	clock.Step(time.Hour)
	g.Consistently(has, 2*time.Second).Should(Equal([]string{"Kept", "OfAnother", "Shared"}))
}
