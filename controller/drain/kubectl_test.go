package drain

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	kubectl "k8s.io/kubectl/pkg/drain"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// orphanage is the name of the one DaemonSet that does not exist.
const orphanage = "orphanage"

// Of an API server there is as much as kubectl needs to look at one pod.
type (
	onePod struct {
		kubernetes.Interface
		pod *corev1.Pod
	}
	core struct {
		typedcorev1.CoreV1Interface
		pod *corev1.Pod
	}
	podList struct {
		typedcorev1.PodInterface
		pod *corev1.Pod
	}
	apps       struct{ typedappsv1.AppsV1Interface }
	daemonSets struct{ typedappsv1.DaemonSetInterface }
)

func (c onePod) CoreV1() typedcorev1.CoreV1Interface          { return core{pod: c.pod} }
func (c onePod) AppsV1() typedappsv1.AppsV1Interface          { return apps{} }
func (c core) Pods(string) typedcorev1.PodInterface           { return podList{pod: c.pod} }
func (apps) DaemonSets(string) typedappsv1.DaemonSetInterface { return daemonSets{} }

func (l podList) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil || !selector.Matches(labels.Set(l.pod.Labels)) {
		return &corev1.PodList{}, err
	}
	return &corev1.PodList{Items: []corev1.Pod{*l.pod}}, nil
}

func (daemonSets) Get(_ context.Context, name string, _ metav1.GetOptions) (*appsv1.DaemonSet, error) {
	if name == orphanage {
		return nil, apierrors.NewNotFound(appsv1.Resource("daemonsets"), name)
	}
	return &appsv1.DaemonSet{}, nil
}

// fate is what becomes of a pod, in words for both.
type fate string

const (
	goes    fate = "goes"
	stay    fate = "stays"
	refused fate = "is refused"
	ends    fate = "ends"
	stuckIn fate = "does not end"
)

// kubectlSays asks kubectl drain --ignore-daemonsets --skip-wait-for-delete-timeout=30.
func kubectlSays(t *testing.T, pod *corev1.Pod, o *v1alpha1.Drain) fate {
	t.Helper()
	helper := kubectl.Helper{
		Ctx: t.Context(), Client: onePod{pod: pod}, Force: o.Force, DeleteEmptyDirData: o.DeleteEmptyDirData,
		IgnoreAllDaemonSets: true, GracePeriodSeconds: -1,
		SkipWaitForDeleteTimeoutSeconds: int(stuckAfter.Seconds()),
	}
	if o.PodSelector != nil {
		helper.PodSelector = metav1.FormatLabelSelector(o.PodSelector.LabelSelector())
	}
	switch list, errs := helper.GetPodsForDeletion("n1"); {
	case len(errs) > 0:
		return refused
	case len(list.Pods()) > 0:
		return goes
	default:
		return stay
	}
}

func weSay(t *testing.T, pod *corev1.Pod, o *v1alpha1.Drain) fate {
	t.Helper()
	plan, err := Decide([]corev1.Pod{*pod}, o, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Pods) == 0 {
		return stay
	}
	fates := map[v1alpha1.PodReason]fate{
		v1alpha1.PodEvictable: goes, v1alpha1.PodTerminating: ends, v1alpha1.PodStuckTerminating: stuckIn,
		v1alpha1.PodLocalStorage: refused, v1alpha1.PodUnmanaged: refused,
	}
	return fates[plan.Pods[0].Reason]
}

// expected is what we are to say where kubectl says something, with the reason for
// each difference.
func expected(pod *corev1.Pod, said fate) (want fate, difference string) {
	owner := metav1.GetControllerOf(pod)
	_, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	orphan := owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == "apps/v1" && owner.Name == orphanage && !finished(pod)
	told := pod.DeletionTimestamp != nil
	isStuck := told && time.Since(pod.DeletionTimestamp.Time) > stuckAfter
	switch {
	case orphan && said != stay:
		return stay, "whether a DaemonSet exists is not asked: the garbage collector ends its pods or takes their owner away"
	case isStuck && said == stay && !stays(pod):
		return stuckIn, "kubectl skips what does not end, we report it"
	case told && said == goes:
		return ends, "kubectl tells a pod again that was told to end, we wait for it"
	case told && said == refused && !isMirror:
		return ends, "kubectl refuses a pod for its data or its owner even if it ends anyway, we wait for it"
	}
	return said, ""
}

func TestPodsGoAsWithKubectlDrain(t *testing.T) {
	const fixed, count = 7, 3000
	random := rand.New(rand.NewPCG(fixed, fixed))
	said, differences := map[fate]int{}, map[string]int{}
	for range count {
		pod := randomPod(random)
		for bits := range 8 {
			options := &v1alpha1.Drain{Force: bits&1 != 0, DeleteEmptyDirData: bits&2 != 0}
			if bits&4 != 0 {
				options.PodSelector = selecting("app", "a")
			}
			theirs := kubectlSays(t, pod, options)
			want, difference := expected(pod, theirs)
			if labelsMiss(pod, options) {
				want, difference = stay, ""
			}
			if ours := weSay(t, pod, options); ours != want {
				t.Fatalf("kubectl: %s, so we are to say: %s, but say: %s\noptions %+v\npod %+v", theirs, want, ours, options, pod)
			}
			said[theirs]++
			differences[difference]++
		}
	}
	t.Logf("kubectl said %v; differences %v", said, differences)
	if len(said) != 3 || len(differences) != 5 {
		t.Errorf("the random pods do not show everything: kubectl said %v; differences %v", said, differences)
	}
}

func labelsMiss(pod *corev1.Pod, o *v1alpha1.Drain) bool {
	return o.PodSelector != nil && pod.Labels["app"] != "a"
}

// oneOf chooses one at random.
func oneOf[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func randomPod(random *rand.Rand) *corev1.Pod {
	pod := newPod("p", unmanaged)
	pod.Labels = oneOf(random, nil, map[string]string{"app": "a"}, map[string]string{"app": "b"})
	pod.Status.Phase = oneOf(random, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, "")
	pod.Annotations = oneOf(random, nil, nil, nil, map[string]string{"a": "b"}, map[string]string{corev1.MirrorPodAnnotationKey: ""})
	for range random.IntN(3) {
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{
			APIVersion: oneOf(random, "apps/v1", "apps/v1", "v1", "batch/v1", "apps/v1beta2", "example.com/v1"),
			Kind:       oneOf(random, "DaemonSet", "DaemonSet", "ReplicaSet", "StatefulSet", "Job", "Node", "ReplicationController"),
			Name:       oneOf(random, "owner", orphanage),
			Controller: oneOf(random, nil, ptr.To(false), ptr.To(true), ptr.To(true)),
		})
	}
	for range random.IntN(3) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: oneOf(random,
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}},
		)})
	}
	// kubectl rounds to seconds, so none is close to the limit.
	if d := oneOf(random, 0, 0, 0, time.Hour, -10*time.Second, -time.Minute, -time.Hour); d != 0 {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(d)}
	}
	return &pod
}
