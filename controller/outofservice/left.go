package outofservice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Left is a pod, or the attachment of a volume, that the taint has not freed.
type Left struct {
	// What it is: "pod default/db-0".
	What string
	// Why it is there, and what helps.
	Why string
}

func (l Left) String() string { return l.What + ": " + l.Why }

// Remaining returns what the taint out-of-service of a node is to free, and has not freed: pods that
// have not ended and do not tolerate it, and attachments of volumes. Pods that tolerate it, static
// ones among them, stay by what they say themselves: see [Staying].
func Remaining(node string, pods []corev1.Pod, attachments []storagev1.VolumeAttachment) (left []Left) {
	for i := range pods {
		if pod := &pods[i]; !tolerates(pod) && !ended(pod) {
			left = append(left, Left{"pod " + pod.Namespace + "/" + pod.Name, whyPod(pod)})
		}
	}
	for i := range attachments {
		if a := &attachments[i]; a.Spec.NodeName == node {
			left = append(left, Left{"volume " + volume(a), whyAttachment(a)})
		}
	}
	sortLeft(left)
	return left
}

// Staying returns the pods that the taint can't free, and why: they tolerate it, or have a
// finalizer, so that nothing of their name starts elsewhere.
func Staying(pods []corev1.Pod) (staying []Left) {
	for i := range pods {
		pod := &pods[i]
		what := "pod " + pod.Namespace + "/" + pod.Name
		_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
		switch {
		case static:
			staying = append(staying, Left{what, "is a static pod of the node, which starts nowhere else"})
		case tolerates(pod):
			staying = append(staying, Left{what, "tolerates the taint, so it is not ended, and its volumes stay attached"})
		case ended(pod) && len(pod.Finalizers) > 0:
			staying = append(staying, Left{what, "has ended, and its finalizers keep its name: see who is to remove " + strings.Join(pod.Finalizers, ", ")})
		}
	}
	sortLeft(staying)
	return staying
}

// Explain says what becomes of the taint of a node with our mark, what it has not freed, and what it
// can't, for people; nothing for another node.
func Explain(node *corev1.Node, pods []corev1.Pod, attachments []storagev1.VolumeAttachment, maintenances []v1alpha1.NodeMaintenance) (lines []string) {
	if !marked(node) {
		return nil
	}
	left := Remaining(node.Name, pods, attachments)
	lasts := ""
	for i := range maintenances {
		lasts += lasting(node, &maintenances[i]) // one has the name
	}
	do, why := after(node, left, lasts)
	if do == remove {
		why += ": the taint is about to be taken away"
	}
	lines = append(lines, why)
	for _, l := range left {
		lines = append(lines, "left: "+l.String())
	}
	for _, l := range Staying(pods) {
		lines = append(lines, "not freed: "+l.String())
	}
	return lines
}

func sortLeft(left []Left) {
	slices.SortFunc(left, func(a, b Left) int { return cmp.Compare(a.What, b.What) })
}

// tolerates reports whether the taint leaves the pod where it is.
func tolerates(pod *corev1.Pod) bool {
	taint := v1alpha1.OutOfServiceMark{BootID: "any"}.Taint()
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.TolerationSeconds != nil {
			return false
		}
		return (t.Key == "" || t.Key == taint.Key) && t.Operator == corev1.TolerationOpExists
	})
}

// ended reports whether the containers of the pod have ended for good: nobody starts them again.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func whyPod(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp == nil:
		return "is not told to end yet: does kube-controller-manager's taint-eviction-controller run?"
	case len(pod.Finalizers) > 0:
		return "is told to end, and its finalizers keep it: see who is to remove " + strings.Join(pod.Finalizers, ", ")
	default:
		return "is told to end: Kubernetes' pod garbage collector ends it while the node is not Ready, its kubelet afterwards"
	}
}

// volume names what is attached.
func volume(a *storagev1.VolumeAttachment) string {
	if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
		return *pv + " (VolumeAttachment " + a.Name + ")"
	}
	return "of VolumeAttachment " + a.Name
}

func whyAttachment(a *storagev1.VolumeAttachment) string {
	switch {
	case a.Status.DetachError != nil:
		return fmt.Sprintf("its driver %s can't detach it: %s", a.Spec.Attacher, a.Status.DetachError.Message)
	case a.DeletionTimestamp != nil:
		return fmt.Sprintf("its driver %s is to detach it", a.Spec.Attacher)
	default:
		return "is not told to be detached yet: a pod of the node that tolerates the taint, or has not ended, uses it"
	}
}
