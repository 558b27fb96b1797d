//go:build integration

package npd

import (
	"fmt"
	"strconv"
	"sync"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const fenceAnnotation = "test.nodemend.dev/fence"

// history is every state that the conditions of a Node go through.
type history struct {
	scene *scene

	mu     sync.Mutex
	states map[corev1.NodeConditionType][]corev1.NodeCondition
	fences map[string]bool
}

// watch begins a history of the scene's Node, which exists already.
func (s *scene) watch() *history {
	s.t.Helper()
	h := &history{scene: s, states: map[corev1.NodeConditionType][]corev1.NodeCondition{}, fences: map[string]bool{}}
	watch, err := s.core.Nodes().Watch(s.t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: s.node}))
	s.Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watch.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok {
				h.add(node)
			}
		}
	}()
	s.t.Cleanup(func() {
		watch.Stop()
		<-ended
	})
	return h
}

func (h *history) add(node *corev1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range node.Status.Conditions {
		h.states[c.Type] = append(h.states[c.Type], c)
	}
	h.fences[node.Annotations[fenceAnnotation]] = true
}

// of returns all states of a condition up to now, in their order. A state that
// did not change between two writes of the Node is there twice.
func (h *history) of(conditionType corev1.NodeConditionType) []corev1.NodeCondition {
	s := h.scene
	s.t.Helper()
	s.fences++
	fence := strconv.Itoa(s.fences)
	_, err := s.core.Nodes().Patch(s.t.Context(), s.node, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, fenceAnnotation, fence), metav1.PatchOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	var states []corev1.NodeCondition
	s.Eventually(func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		states = h.states[conditionType]
		return h.fences[fence]
	}).Should(BeTrue(), "the watch of the Node comes to its latest state")
	return states
}

// left looks for a status other than that of a problem that has held all the time.
func (h *history) left(stored corev1.NodeCondition) finding {
	h.scene.t.Helper()
	for _, c := range h.of(stored.Type) {
		if c.Status != stored.Status {
			return finding{"a problem that holds leaves True", true, describe(c)}
		}
	}
	return finding{"a problem that holds leaves True", false, "it stayed True"}
}

// moved looks for a lastTransitionTime other than that of a problem that has held
// all the time.
func (h *history) moved(stored corev1.NodeCondition) finding {
	h.scene.t.Helper()
	for _, c := range h.of(stored.Type) {
		if !c.LastTransitionTime.Equal(&stored.LastTransitionTime) {
			return finding{"the lastTransitionTime of a problem that holds moves", true, describe(c)}
		}
	}
	return finding{"the lastTransitionTime of a problem that holds moves", false, "it stayed " + clock(stored.LastTransitionTime)}
}

func describe(c corev1.NodeCondition) string {
	return fmt.Sprintf("%s=%s since %s with reason %s, heartbeat %s", c.Type, c.Status, clock(c.LastTransitionTime), c.Reason, clock(c.LastHeartbeatTime))
}

func clock(t metav1.Time) string { return t.UTC().Format("15:04:05") }
