// Package drain evicts the pods of a node, without ever blocking: one pass after
// another, each a look at the node and an eviction of what may go now. Which pods
// go is what kubectl drain does, but its code is not linked: it costs the
// controller 30 MB of memory. A test compares the two.
package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// stuckAfter is how long after its deletionTimestamp, which includes the time it
// was given, a pod counts as one that does not end.
const stuckAfter = 30 * time.Second

// Plan is what Decide has decided about the pods of a node.
type Plan struct {
	// Pods are those that are to go or veto, in the order they were given. The
	// others stay and do not matter: mirror pods, pods of DaemonSets that have not
	// finished, pods outside podSelector.
	Pods []Verdict
	// Vetoes is how many of Pods veto. While one does, none is Evictable.
	Vetoes int32
}

// Verdict is what was decided about a pod.
type Verdict struct {
	// Pod is one of those given to Decide. It must not be changed.
	Pod *corev1.Pod
	// Reason is PodEvictable for a pod that may be evicted now. All others are left
	// alone.
	Reason v1alpha1.PodReason
	// Message tells people more. It is the same in every pass that finds the same.
	Message string
}

// Decide says which of the pods of a node go, as kubectl drain --ignore-daemonsets
// does, with these differences. A pod that is refused does not keep the others. A pod that
// was told to end keeps the time it was given then and is not told again. Whether
// a DaemonSet exists is not asked: where it is gone, the garbage collector ends its
// pods or, with --cascade=orphan, takes their owner away. options must not be nil.
// It fails only for a selector that is none.
func Decide(pods []corev1.Pod, options *v1alpha1.Drain, now time.Time) (Plan, error) {
	selected, err := options.PodSelector.Selector(labels.Everything())
	if err != nil {
		return Plan{}, fmt.Errorf("drain.podSelector: %w", err)
	}
	vetoing, err := options.VetoedBy.Selector(labels.Nothing())
	if err != nil {
		return Plan{}, fmt.Errorf("drain.vetoedBy: %w", err)
	}
	var plan Plan
	var veto *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		v := Verdict{Pod: pod}
		switch {
		case !finished(pod) && vetoing.Matches(labels.Set(pod.Labels)):
			v.Reason, v.Message = v1alpha1.PodVeto, "drain.vetoedBy selects it: nothing is evicted from the node until it has finished"
			plan.Vetoes++
			if veto == nil {
				veto = pod
			}
		case stays(pod) || !selected.Matches(labels.Set(pod.Labels)):
			continue
		default:
			v.Reason, v.Message = verdict(pod, options, now)
		}
		plan.Pods = append(plan.Pods, v)
	}
	if veto == nil {
		return plan, nil
	}
	for i := range plan.Pods {
		if v := &plan.Pods[i]; v.Reason == v1alpha1.PodEvictable {
			v.Reason, v.Message = v1alpha1.PodVetoed, fmt.Sprintf("waits for pod %s/%s, which drain.vetoedBy selects", veto.Namespace, veto.Name)
		}
	}
	return plan, nil
}

// arrived returns a pod of the plan that the ended drain has not left there. One that has
// finished since, as the kubelet makes of each that it does not admit, has nothing to lose.
func arrived(plan *Plan, ended *v1alpha1.DrainStatus) *corev1.Pod {
	if ended == nil {
		ended = &v1alpha1.DrainStatus{}
	}
	for i := range plan.Pods {
		v := &plan.Pods[i]
		if finished(v.Pod) {
			continue
		}
		listed := len(ended.Pods) >= maxPods || slices.ContainsFunc(ended.Pods, func(p v1alpha1.RemainingPod) bool {
			return p.Namespace == v.Pod.Namespace && p.Name == v.Pod.Name
		})
		if v.Reason == v1alpha1.PodVeto || v.Reason != v1alpha1.PodStuckTerminating && !listed {
			return v.Pod
		}
	}
	return nil
}

// verdict is about a pod that is to go.
func verdict(pod *corev1.Pod, options *v1alpha1.Drain, now time.Time) (v1alpha1.PodReason, string) {
	switch volume := emptyDir(pod); {
	case pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) > stuckAfter:
		return v1alpha1.PodStuckTerminating, stuck(pod)
	case pod.DeletionTimestamp != nil:
		return v1alpha1.PodTerminating, "has until " + utc(pod.DeletionTimestamp) + " to end"
	case finished(pod):
		return v1alpha1.PodEvictable, ""
	case volume != "" && !options.DeleteEmptyDirData:
		return v1alpha1.PodLocalStorage, fmt.Sprintf("its emptyDir volume %s would be lost: delete the pod, or set drain.deleteEmptyDirData", volume)
	case metav1.GetControllerOfNoCopy(pod) == nil && !options.Force:
		return v1alpha1.PodUnmanaged, "no controller would create it again: delete the pod, or set drain.force"
	default:
		return v1alpha1.PodEvictable, ""
	}
}

// stays reports whether a drain leaves the pod where it is: the API server's
// picture of a static pod cannot be evicted, and a DaemonSet would bring its pod
// back at once.
func stays(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String() && !finished(pod)
}

// finished reports whether the containers of the pod have ended for good.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// emptyDir returns the name of an emptyDir volume of the pod; "" if it has none.
func emptyDir(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].EmptyDir != nil {
			return pod.Spec.Volumes[i].Name
		}
	}
	return ""
}

// stuck says why a pod may not end.
func stuck(pod *corev1.Pod) string {
	if len(pod.Finalizers) > 0 {
		return fmt.Sprintf("was to end by %s: see who is to remove its finalizers %s", utc(pod.DeletionTimestamp), strings.Join(pod.Finalizers, ", "))
	}
	return fmt.Sprintf("was to end by %s: see whether the kubelet and the container runtime of the node work", utc(pod.DeletionTimestamp))
}

func utc(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }
