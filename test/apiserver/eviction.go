package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evict deletes a pod if its PodDisruptionBudget lets it go. The budget's
// disruptionsAllowed is written by whoever plays the disruption controller.
func (s *Server) evict(by string, key types.NamespacedName, options *metav1.DeleteOptions) error {
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	pods, budgets := s.byType[typeOf[corev1.Pod]()], s.byType[typeOf[policyv1.PodDisruptionBudget]()]
	obj, err := s.get(pods, key)
	if err != nil {
		return err
	}
	pod := obj.(*corev1.Pod)
	if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		guards, _, err := s.list(budgets, Selection{Namespace: key.Namespace})
		if err != nil {
			return err
		}
		for _, guard := range guards {
			if err := s.takeDisruption(budgets, by, guard.(*policyv1.PodDisruptionBudget), pod); err != nil {
				return err
			}
		}
	}
	_, err = s.delete(pods, by, key, *options)
	return err
}

// takeDisruption takes one of the disruptions that a budget allows, if it is the pod's.
func (s *Server) takeDisruption(budgets *kind, by string, guard *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	selector, err := metav1.LabelSelectorAsSelector(guard.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
		return err
	}
	_, err = s.update(budgets, by, keyOf(guard), status, func(present client.Object) (client.Object, error) {
		taken := present.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		if taken.Status.DisruptionsAllowed <= 0 {
			refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
				Type: policyv1.DisruptionBudgetCause,
				Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
					taken.Name, taken.Status.DesiredHealthy, taken.Status.CurrentHealthy),
			})
			return nil, refusal
		}
		taken.Status.DisruptionsAllowed--
		return taken, nil
	})
	return err
}
