package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/apiserver"
)

// guardedLabel is of pods that go one at a time where there is a PodDisruptionBudget.
const guardedLabel = "guarded"

// guardPods makes a PodDisruptionBudget that lets one pod go, and the next one later.
func (w *world) guardPods() {
	guard := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard", Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{guardedLabel: "true"}}},
	}
	w.must(w.admin.Create(w.ctx, guard))
	w.allowDisruption(guard)
}

// allowDisruption plays the disruption controller.
func (w *world) allowDisruption(guard *policyv1.PodDisruptionBudget) {
	w.must(w.admin.Get(w.ctx, client.ObjectKeyFromObject(guard), guard))
	if guard.Status.DisruptionsAllowed > 0 {
		return
	}
	guard.Status.ObservedGeneration, guard.Status.DisruptionsAllowed, guard.Status.DisruptedPods = guard.Generation, 1, nil
	meta.RemoveStatusCondition(&guard.Status.Conditions, policyv1.DisruptionAllowedCondition)
	w.must(w.admin.Status().Update(w.ctx, guard))
}

// attend plays what the kubelets and the disruption controller do about a change. A story
// tells that itself.
func (w *world) attend(c apiserver.Change) {
	if w.volumes != nil {
		w.volumes.attend(c)
	}
	if w.happenings == nil {
		return
	}
	switch updated := c.New.(type) {
	case *corev1.Pod:
		if old, ok := c.Old.(*corev1.Pod); ok && old.DeletionTimestamp == nil && updated.DeletionTimestamp != nil {
			w.after(of(w.choices, time.Second, 20*time.Second, 5*time.Minute), func() { w.endPod(updated) })
		}
	case *policyv1.PodDisruptionBudget:
		if c.Old != nil && updated.Status.DisruptionsAllowed == 0 {
			w.after(of(w.choices, 10*time.Second, time.Minute), func() { w.allowDisruption(updated.DeepCopy()) })
		}
	}
}

// endPod lets a kubelet say that a pod has ended, once it reaches the API server.
func (w *world) endPod(pod *corev1.Pod) {
	n := w.node(pod.Spec.NodeName)
	if n == nil {
		return
	}
	if !n.connected() {
		w.after(30*time.Second, func() { w.endPod(pod) })
		return
	}
	if is := apiserver.Peek[*corev1.Pod](w.server, client.ObjectKeyFromObject(pod)); is == nil || is.UID != pod.UID {
		return // somebody has ended it by force
	}
	if w.volumes != nil {
		w.volumes.ends(pod)
	}
	w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})))
}
