package apiserver

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evict deletes a pod if its PodDisruptionBudget lets it go, as
// pkg/registry/core/pod/storage/eviction.go of Kubernetes does. The budget's status is
// written by whoever plays the disruption controller.
func (s *Server) evict(by string, key types.NamespacedName, options *metav1.DeleteOptions) error {
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	dryRun := len(options.DryRun) > 0
	obj, err := s.get(s.byType[typeOf[corev1.Pod]()], key)
	if err != nil {
		return err
	}
	pod := obj.(*corev1.Pod)
	if !needsNoBudget(pod) {
		guard, err := s.guardOf(pod)
		if err != nil {
			return err
		}
		if guard != nil && !lets(guard, pod) {
			if err := s.takeDisruption(by, guard, pod, dryRun); err != nil {
				return err
			}
		}
	}
	if dryRun {
		return nil
	}
	return s.end(by, key, options)
}

// needsNoBudget reports whether a pod disrupts nothing when it goes.
func needsNoBudget(pod *corev1.Pod) bool {
	return slices.Contains([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending}, pod.Status.Phase) || pod.DeletionTimestamp != nil
}

// guardOf returns the budget that the pod is under, nil if there is none.
func (s *Server) guardOf(pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	budgets, _, err := s.list(s.byType[typeOf[policyv1.PodDisruptionBudget]()], Selection{Namespace: pod.Namespace})
	if err != nil {
		return nil, err
	}
	var found *policyv1.PodDisruptionBudget
	for _, obj := range budgets {
		budget := obj.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue // one with an invalid selector guards nothing
		}
		if found != nil {
			return nil, errTwoBudgets
		}
		found = budget
	}
	return found, nil
}

// errTwoBudgets refuses what is under two budgets.
var errTwoBudgets = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: 500,
	Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
}}

// lets reports whether a budget lets a pod go without counting it, since it is not ready.
func lets(guard *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if ready {
		return false
	}
	return ptr.Deref(guard.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget) == policyv1.AlwaysAllow ||
		guard.Status.CurrentHealthy >= guard.Status.DesiredHealthy && guard.Status.DesiredHealthy > 0
}

// takeDisruption takes one of the disruptions that a budget allows.
func (s *Server) takeDisruption(by string, guard *policyv1.PodDisruptionBudget, pod *corev1.Pod, dryRun bool) error {
	budgets := s.byType[typeOf[policyv1.PodDisruptionBudget]()]
	if dryRun {
		return refusal(guard)
	}
	_, err := s.update(budgets, by, keyOf(guard), status, func(present client.Object) (client.Object, error) {
		if err := refusal(present.(*policyv1.PodDisruptionBudget)); err != nil {
			return nil, err
		}
		taken := present.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		taken.Status.DisruptionsAllowed--
		if taken.Status.DisruptionsAllowed == 0 {
			meta.SetStatusCondition(&taken.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
				ObservedGeneration: taken.Status.ObservedGeneration, LastTransitionTime: metav1.NewTime(s.now()),
			})
		}
		if taken.Status.DisruptedPods == nil {
			taken.Status.DisruptedPods = map[string]metav1.Time{}
		}
		taken.Status.DisruptedPods[pod.Name] = metav1.NewTime(s.now())
		return taken, nil
	})
	return err
}

// refusal says why a budget allows no disruption; nil if it does.
func refusal(guard *policyv1.PodDisruptionBudget) error {
	status := &guard.Status
	because := func(err *apierrors.StatusError, format string, args ...any) error {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("The disruption budget %s ", guard.Name) + fmt.Sprintf(format, args...),
		})
		return err
	}
	violates := func(seconds int) *apierrors.StatusError {
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	}
	allowed := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	denied := allowed != nil && allowed.Status == metav1.ConditionFalse && allowed.Message != ""
	switch {
	case status.ObservedGeneration < guard.Generation:
		return because(violates(10), "is still being processed by the server.")
	case status.DisruptionsAllowed < 0:
		return because(apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, guard.Name,
			errors.New("pdb disruptions allowed is negative")), "does not allow evicting pods currently: pdb disruptions allowed is negative")
	case status.DisruptionsAllowed > 0:
		return nil
	case denied && allowed.Reason == policyv1.SyncFailedReason:
		return because(violates(0), "does not allow evicting pods currently because it failed sync: %s", allowed.Message)
	case status.CurrentHealthy <= status.DesiredHealthy:
		return because(violates(0), "needs %d healthy pods and has %d currently", status.DesiredHealthy, status.CurrentHealthy)
	case denied:
		return because(violates(0), "does not allow evicting pods currently (%s): %s", allowed.Reason, allowed.Message)
	default:
		return because(violates(0), "does not allow evicting pods currently")
	}
}

// end marks a pod as disrupted and deletes it.
func (s *Server) end(by string, key types.NamespacedName, options *metav1.DeleteOptions) error {
	pods := s.byType[typeOf[corev1.Pod]()]
	stored, err := s.update(pods, by, key, status, func(present client.Object) (client.Object, error) {
		if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != present.GetUID() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, key.Name, fmt.Errorf(
				"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, present.GetUID()))
		} else if p != nil && p.ResourceVersion != nil && *p.ResourceVersion != present.GetResourceVersion() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, key.Name, fmt.Errorf(
				"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, present.GetResourceVersion()))
		}
		return disrupted(present.(*corev1.Pod), metav1.NewTime(s.now())), nil
	})
	if err != nil {
		return err
	}
	deletion := *options
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil {
		deletion.Preconditions = &metav1.Preconditions{UID: p.UID, ResourceVersion: ptr.To(stored.GetResourceVersion())}
	}
	_, err = s.delete(pods, by, key, deletion)
	return err
}

// disrupted returns the pod with the condition of one that was evicted.
func disrupted(pod *corev1.Pod, now metav1.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
		return pod
	}
	if pod.Status.Conditions[i].Status == condition.Status {
		condition.LastTransitionTime = pod.Status.Conditions[i].LastTransitionTime
	}
	pod.Status.Conditions[i] = condition
	return pod
}
