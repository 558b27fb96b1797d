//go:build integration

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The time from the PATCH that makes a condition True, until a watch shows the
// remediation, and until it shows the action for the node's runner.
func BenchmarkConditionToRemediationToAction(b *testing.B) {
	s := newScene(b, "bench", 200, "100%")
	s.policy(shell("true"))
	remediations, err := s.client.Watch(s.ctx, &v1alpha1.RemediationList{})
	s.Expect(err).NotTo(HaveOccurred())
	defer remediations.Stop()
	actions, err := s.client.Watch(s.ctx, &v1alpha1.NodeActionList{})
	s.Expect(err).NotTo(HaveOccurred())
	defer actions.Stop()
	s.startController()
	s.Eventually(s.limit).Should(BeEquivalentTo(len(s.nodes)))

	var toRemediation, toAction []time.Duration
	for i := 0; b.Loop(); i++ {
		if i == len(s.nodes) {
			b.Fatalf("more than %d rounds: run it with -benchtime=100x", len(s.nodes))
		}
		began := time.Now()
		s.Expect(s.report(s.ctx, s.nodes[i], sick, "True", began, began)).To(Succeed())
		await(b, remediations, s.nodes[i])
		toRemediation = append(toRemediation, time.Since(began))
		await(b, actions, s.nodes[i])
		toAction = append(toAction, time.Since(began))
	}
	report(b, toRemediation, "remediation")
	report(b, toAction, "action")
}

// await waits for an object of the node.
func await(b *testing.B, w watch.Interface, node string) {
	b.Helper()
	for event := range w.ResultChan() {
		switch o := event.Object.(type) {
		case *v1alpha1.Remediation:
			if o.Spec.NodeName == node {
				return
			}
		case *v1alpha1.NodeAction:
			if o.Spec.NodeName == node {
				return
			}
		}
	}
	b.Fatal("the watch ended")
}

func report(b *testing.B, times []time.Duration, what string) {
	b.Helper()
	slices.Sort(times)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(times[len(times)*percent/100].Microseconds())/1000, fmt.Sprintf("ms-to-%s-p%d", what, percent))
	}
}
