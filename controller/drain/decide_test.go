package drain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newPod returns a running pod of a ReplicaSet, changed.
func newPod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	ownedBy("apps/v1", "ReplicaSet")(&pod)
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "owner", Controller: ptr.To(true)}}
	}
}

func daemon(pod *corev1.Pod)    { ownedBy("apps/v1", "DaemonSet")(pod) }
func unmanaged(pod *corev1.Pod) { pod.OwnerReferences = nil }
func notController(pod *corev1.Pod) {
	pod.OwnerReferences[0].Controller = nil
}
func mirror(pod *corev1.Pod) {
	ownedBy("v1", "Node")(pod)
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}
func storage(pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}
func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}
func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{key: value} }
}
func endsIn(d time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now.Add(d)} }
}
func finalized(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/a", "example.com/b"} }

func selecting(key, value string) *v1alpha1.PodSelector {
	return &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}}
}

func TestEveryPodHasAVerdict(t *testing.T) {
	const stays = v1alpha1.PodReason("stays")
	busy := &v1alpha1.Drain{VetoedBy: selecting("busy", "yes")}
	tests := []struct {
		name    string
		pod     corev1.Pod
		options *v1alpha1.Drain
		want    v1alpha1.PodReason
		says    string
	}{
		{"a running pod", newPod("p"), nil, v1alpha1.PodEvictable, ""},
		{"a pending pod", newPod("p", in(corev1.PodPending)), nil, v1alpha1.PodEvictable, ""},
		{"a finished pod", newPod("p", in(corev1.PodSucceeded)), nil, v1alpha1.PodEvictable, ""},
		{"a finished pod with data and without an owner", newPod("p", in(corev1.PodFailed), storage, unmanaged), nil, v1alpha1.PodEvictable, ""},
		{"a pod of a DaemonSet", newPod("p", daemon), nil, stays, ""},
		{"a pod of a DaemonSet without an owner of it", newPod("p", daemon, notController), nil, v1alpha1.PodUnmanaged, "drain.force"},
		{"a pod of a DaemonSet of others", newPod("p", ownedBy("apps.example.com/v1", "DaemonSet")), nil, v1alpha1.PodEvictable, ""},
		{"a finished pod of a DaemonSet", newPod("p", daemon, in(corev1.PodFailed)), nil, v1alpha1.PodEvictable, ""},
		{"a pod of a DaemonSet that ends", newPod("p", daemon, endsIn(time.Second)), nil, stays, ""},
		{"a mirror pod", newPod("p", mirror), nil, stays, ""},
		{"a finished mirror pod with data", newPod("p", mirror, storage, in(corev1.PodFailed)), nil, stays, ""},
		{"a pod of the node itself that is no mirror", newPod("p", ownedBy("v1", "Node")), nil, v1alpha1.PodEvictable, ""},
		{"data", newPod("p", storage), nil, v1alpha1.PodLocalStorage, "volume scratch"},
		{"data that may go", newPod("p", storage), &v1alpha1.Drain{DeleteEmptyDirData: true}, v1alpha1.PodEvictable, ""},
		{"no owner", newPod("p", unmanaged), nil, v1alpha1.PodUnmanaged, "drain.force"},
		{"no owner, forced", newPod("p", unmanaged), &v1alpha1.Drain{Force: true}, v1alpha1.PodEvictable, ""},
		{"no owner and data, forced", newPod("p", unmanaged, storage), &v1alpha1.Drain{Force: true}, v1alpha1.PodLocalStorage, ""},
		{"an owner that is no controller", newPod("p", notController), nil, v1alpha1.PodUnmanaged, ""},
		{"selected", newPod("p", labelled("app", "a")), &v1alpha1.Drain{PodSelector: selecting("app", "a")}, v1alpha1.PodEvictable, ""},
		{"not selected", newPod("p", labelled("app", "b")), &v1alpha1.Drain{PodSelector: selecting("app", "a")}, stays, ""},
		{"an empty selector selects all", newPod("p"), &v1alpha1.Drain{PodSelector: &v1alpha1.PodSelector{}}, v1alpha1.PodEvictable, ""},
		{"has time to end", newPod("p", endsIn(time.Hour)), nil, v1alpha1.PodTerminating, "2026-03-01T13:00:00Z"},
		{"ends with data and no owner", newPod("p", endsIn(0), storage, unmanaged), nil, v1alpha1.PodTerminating, ""},
		{"should have ended just now", newPod("p", endsIn(-30*time.Second)), nil, v1alpha1.PodTerminating, ""},
		{"should have ended before", newPod("p", endsIn(-31*time.Second)), nil, v1alpha1.PodStuckTerminating, "kubelet"},
		{"is held by finalizers", newPod("p", endsIn(-time.Hour), finalized), nil, v1alpha1.PodStuckTerminating, "example.com/a, example.com/b"},
		{"finished, held by finalizers", newPod("p", endsIn(-time.Hour), finalized, in(corev1.PodSucceeded)), nil, v1alpha1.PodStuckTerminating, ""},
		{"vetoes", newPod("p", labelled("busy", "yes")), busy, v1alpha1.PodVeto, "drain.vetoedBy"},
		{"vetoes no more", newPod("p", labelled("busy", "yes"), in(corev1.PodSucceeded)), busy, v1alpha1.PodEvictable, ""},
		{"a mirror pod that vetoes", newPod("p", mirror, labelled("busy", "yes")), busy, v1alpha1.PodVeto, ""},
		{"a pod of a DaemonSet that vetoes", newPod("p", daemon, labelled("busy", "yes")), busy, v1alpha1.PodVeto, ""},
		{"is told to end and vetoes", newPod("p", endsIn(-time.Hour), labelled("busy", "yes")), busy, v1alpha1.PodVeto, ""},
		{"not selected, but vetoes", newPod("p", labelled("busy", "yes")),
			&v1alpha1.Drain{PodSelector: selecting("app", "a"), VetoedBy: selecting("busy", "yes")}, v1alpha1.PodVeto, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			options := tt.options
			if options == nil {
				options = &v1alpha1.Drain{}
			}
			plan, err := Decide([]corev1.Pod{tt.pod}, options, now)
			if err != nil {
				t.Fatal(err)
			}
			got, message := stays, ""
			if len(plan.Pods) == 1 {
				got, message = plan.Pods[0].Reason, plan.Pods[0].Message
			}
			if got != tt.want || !strings.Contains(message, tt.says) {
				t.Errorf("got %s (%s), want %s (%s)", got, message, tt.want, tt.says)
			}
		})
	}
}

func TestAVetoKeepsAllThatCouldGo(t *testing.T) {
	pods := []corev1.Pod{
		newPod("free"), newPod("finished", in(corev1.PodSucceeded)), newPod("ending", endsIn(time.Minute)), newPod("data", storage),
		newPod("busy", labelled("busy", "yes")), newPod("busy-too", labelled("busy", "yes")), newPod("daemon", daemon),
	}
	plan, err := Decide(pods, &v1alpha1.Drain{VetoedBy: selecting("busy", "yes")}, now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]v1alpha1.PodReason{}
	for _, v := range plan.Pods {
		got[v.Pod.Name] = v.Reason
		if v.Reason == v1alpha1.PodVetoed && !strings.Contains(v.Message, "default/busy,") {
			t.Errorf("the veto is not named: %s", v.Message)
		}
	}
	want := map[string]v1alpha1.PodReason{
		"free": v1alpha1.PodVetoed, "finished": v1alpha1.PodVetoed, "ending": v1alpha1.PodTerminating,
		"data": v1alpha1.PodLocalStorage, "busy": v1alpha1.PodVeto, "busy-too": v1alpha1.PodVeto,
	}
	if diff := cmp.Diff(want, got); diff != "" || plan.Vetoes != 2 {
		t.Errorf("%d vetoes, -want +got:\n%s", plan.Vetoes, diff)
	}
}

func TestARefusedPodDoesNotKeepTheOthers(t *testing.T) {
	plan, err := Decide([]corev1.Pod{newPod("data", storage), newPod("free")}, &v1alpha1.Drain{}, now)
	if err != nil || plan.Pods[0].Reason != v1alpha1.PodLocalStorage || plan.Pods[1].Reason != v1alpha1.PodEvictable {
		t.Errorf("got %+v, %v", plan, err)
	}
}

func TestASelectorThatIsNoneIsNamed(t *testing.T) {
	bad := &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.LabelRequirement{{Key: "a", Operator: "Near"}}}
	for field, options := range map[string]*v1alpha1.Drain{
		"drain.podSelector": {PodSelector: bad}, "drain.vetoedBy": {VetoedBy: bad},
	} {
		if _, err := Decide(nil, options, now); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error about %s", err, field)
		}
	}
}

func TestAPodThatTheDrainHasNotLeftHasArrived(t *testing.T) {
	left := func(names ...string) *v1alpha1.DrainStatus {
		ended := &v1alpha1.DrainStatus{Left: int32(len(names))}
		for _, name := range names {
			ended.Pods = append(ended.Pods, v1alpha1.RemainingPod{Namespace: "default", Name: name})
		}
		return ended
	}
	many := left(slices.Repeat([]string{"other"}, maxPods)...)
	options := &v1alpha1.Drain{VetoedBy: selecting("vm", "true"), PodSelector: selecting("moves", "true")}
	moves := labelled("moves", "true")
	vm := labelled("vm", "true")
	for name, tt := range map[string]struct {
		pods  []corev1.Pod
		ended *v1alpha1.DrainStatus
		want  string
	}{
		"none is there":                        {nil, left(), ""},
		"one that was left when time was over": {[]corev1.Pod{newPod("a", moves)}, left("a"), ""},
		"one beside it":                        {[]corev1.Pod{newPod("a", moves), newPod("b", moves)}, left("a"), "b"},
		"one of that name elsewhere":           {[]corev1.Pod{newPod("a", moves, func(p *corev1.Pod) { p.Namespace = "other" })}, left("a"), "a"},
		"one, and nobody knows what was left":  {[]corev1.Pod{newPod("a", moves)}, nil, "a"},
		"one that the drain does not select":   {[]corev1.Pod{newPod("a")}, left(), ""},
		"one of a DaemonSet":                   {[]corev1.Pod{newPod("a", moves, daemon)}, left(), ""},
		"one that ends already":                {[]corev1.Pod{newPod("a", moves, endsIn(time.Second))}, left(), "a"},
		"one that is stuck":                    {[]corev1.Pod{newPod("a", moves, endsIn(-time.Hour))}, left(), ""},
		"one that nobody may evict":            {[]corev1.Pod{newPod("a", moves, unmanaged)}, left(), "a"},
		"one that has finished":                {[]corev1.Pod{newPod("a", moves, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, left(), ""},
		"one that vetoes":                      {[]corev1.Pod{newPod("a", vm)}, left("a"), "a"},
		"one beside more than the list has":    {[]corev1.Pod{newPod("a", moves)}, many, ""},
		"one that vetoes beside these":         {[]corev1.Pod{newPod("a", moves), newPod("b", vm)}, many, "b"},
	} {
		plan, err := Decide(tt.pods, options, now)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if pod := arrived(&plan, tt.ended); pod != nil {
			got = pod.Name
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
