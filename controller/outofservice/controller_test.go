package outofservice

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/worker"
)

// scene is a node whose machine is kept off, and controllers that look at it.
type scene struct {
	*testing.T
	client.Client
	now  time.Time
	pods []corev1.Pod
	told *events.FakeRecorder
	// before is called before each request, and may fail it.
	before func(verb string, object any) error
	// patched is called after each patch that was made, and may lose its answer.
	patched func() error
}

func newScene(t *testing.T, change func(*facts)) *scene {
	t.Helper()
	f := goodFacts(t)
	change(&f)
	return sceneOf(t, f)
}

func sceneOf(t *testing.T, f facts) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	s := &scene{T: t, now: start, told: events.NewFakeRecorder(100), before: func(string, any) error { return nil }, patched: func() error { return nil }}
	s.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	b := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&v1alpha1.NodeAction{}, index.ActionsByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeAction).Spec.NodeName} }).
		WithIndex(&v1alpha1.NodeMaintenance{}, index.MaintenancesByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeMaintenance).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if err := s.before("get", obj); err != nil {
					return err
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := s.before("list", list); err != nil {
					return err
				}
				return c.List(ctx, list, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := s.before("patch", obj); err != nil {
					return err
				}
				err := c.Patch(ctx, obj, patch, opts...)
				if err != nil && strings.Contains(err.Error(), "testing") { // as the API server answers
					err = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), obj.GetName(), nil)
				}
				if err == nil {
					err = s.patched()
				}
				return err
			},
		})
	if f.maintenance != nil {
		b = b.WithObjects(f.maintenance)
	} else {
		b = b.WithObjects(f.action, f.remediation, f.policy)
	}
	b = b.WithObjects(f.node)
	s.Client = b.Build()
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// controller is one process.
func (s *scene) controller() *Reconciler {
	return &Reconciler{
		Client: s, Live: s, Steady: func() time.Time { return s.now }, Now: func() time.Time { return s.now }, Events: s.told, backoff: worker.NewBackoff(),
		Pods: func(context.Context, string) ([]corev1.Pod, error) { return s.pods, nil },
	}
}

// looks has a controller look at the node.
func (s *scene) looks(r *Reconciler) error {
	s.Helper()
	_, err := r.reconcile(s.Context(), "worker-1")
	return err
}

func (s *scene) node() *corev1.Node {
	s.Helper()
	var node corev1.Node
	s.must(s.Get(s.Context(), client.ObjectKey{Name: "worker-1"}, &node))
	return &node
}

// set changes the node.
func (s *scene) set(change func(*corev1.Node)) {
	s.Helper()
	node := s.node()
	change(node)
	status := node.Status
	s.must(s.Update(s.Context(), node))
	node.Status = status
	s.must(s.Status().Update(s.Context(), node))
}

// reads has the remote runner read off once more, so much later.
func (s *scene) reads(later time.Duration) {
	s.Helper()
	s.now = s.now.Add(later)
	var action v1alpha1.NodeAction
	s.must(s.Get(s.Context(), client.ObjectKey{Name: "action"}, &action))
	action.Status.Power.Held++
	s.must(s.Update(s.Context(), &action))
}

func (s *scene) tainted() bool {
	s.Helper()
	node := s.node()
	mark, is := v1alpha1.OutOfServiceMarkOf(node)
	own, _ := mark.OutOfService(node)
	if is != (own >= 0) {
		s.Fatalf("mark and taint are not one: %v, %v", node.Annotations, node.Spec.Taints)
	}
	return is
}

// says returns the next that people were told, "" if they were told nothing.
func (s *scene) says() string {
	select {
	case told := <-s.told.Events:
		return told
	default:
		return ""
	}
}

func boots(node *corev1.Node) {
	node.Status.NodeInfo.BootID = boot2
	node.Status.Conditions[0].Status = corev1.ConditionTrue
}

func TestANodeThatIsOffIsOutOfServiceUntilItIsBack(t *testing.T) {
	s := newScene(t, func(f *facts) {
		f.node.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
		f.node.Annotations = map[string]string{"a": "b"}
	})
	s.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0"}}}
	r := s.controller()
	s.must(s.looks(r))
	s.reads(time.Second)
	s.must(s.looks(r))
	if s.tainted() {
		t.Fatal("it is tainted by readings that may be old")
	}
	s.reads(time.Second)
	s.must(s.looks(r))
	want := v1alpha1.OutOfServiceMark{BootID: boot1, Action: "action"}
	if mark, _ := v1alpha1.OutOfServiceMarkOf(s.node()); !s.tainted() || mark != want || len(s.node().Spec.Taints) != 2 {
		t.Fatalf("it has %v, %v", s.node().Annotations, s.node().Spec.Taints)
	}
	s.must(s.looks(r))
	if mark, _ := v1alpha1.OutOfServiceMarkOf(s.node()); mark.Moved {
		t.Error("the pod is there, and is told to be gone")
	}
	s.pods = nil
	s.must(s.looks(r))
	if mark, _ := v1alpha1.OutOfServiceMarkOf(s.node()); !mark.Moved {
		t.Error("it is not told that all has moved")
	}
	s.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0"}}}
	s.set(boots)
	s.must(s.looks(r))
	if !s.tainted() {
		t.Error("a pod is there, and the taint is taken away")
	}
	s.pods = nil
	// Whatever has become of who wanted it.
	for _, object := range []client.Object{&v1alpha1.NodeAction{}, &v1alpha1.Remediation{}, &v1alpha1.RemedyPolicy{}} {
		s.must(s.DeleteAllOf(t.Context(), object))
	}
	s.must(s.looks(s.controller()))
	if node := s.node(); s.tainted() || len(node.Spec.Taints) != 1 || !maps.Equal(node.Annotations, map[string]string{"a": "b"}) {
		t.Errorf("it has %v, %v", node.Annotations, node.Spec.Taints)
	}
}

// For a maintenance the taint stays until that has ended, also if somebody boots the machine before.
func TestANodeInMaintenanceIsOutOfServiceUntilThatHasEnded(t *testing.T) {
	s := sceneOf(t, goodMaintenance(t, false))
	get := func() *v1alpha1.NodeMaintenance {
		var m v1alpha1.NodeMaintenance
		s.must(s.Get(t.Context(), client.ObjectKey{Name: "swap"}, &m))
		return &m
	}
	reads := func() {
		s.now = s.now.Add(time.Second)
		m := get()
		m.Status.Power.Held++
		s.must(s.Update(t.Context(), m))
	}
	r := s.controller()
	s.must(s.looks(r))
	reads()
	s.must(s.looks(r))
	if s.tainted() {
		t.Fatal("it is tainted by readings that may be old")
	}
	reads()
	s.must(s.looks(r))
	want := v1alpha1.OutOfServiceMark{BootID: boot1, Action: "maintenance/swap"}
	if mark, _ := v1alpha1.OutOfServiceMarkOf(s.node()); !s.tainted() || mark != want {
		t.Fatalf("it has %v, %v", s.node().Annotations, s.node().Spec.Taints)
	}
	s.set(boots)
	s.must(s.looks(r))
	if !s.tainted() {
		t.Fatal("the maintenance lasts, and the taint is taken away")
	}
	if lines := Explain(s.node(), nil, nil, []v1alpha1.NodeMaintenance{*get()}); len(lines) != 1 || !strings.Contains(lines[0], "until maintenance swap has ended") {
		t.Errorf("people are told %q", lines)
	}
	s.must(s.Delete(t.Context(), get())) // its finalizer keeps it
	s.must(s.looks(s.controller()))
	if s.tainted() {
		t.Error("the maintenance has ended, and the taint stays")
	}
}

// What changes between the look and the patch keeps the taint from being set, or taken away.
func TestANodeThatHasChangedSinceItWasReadIsNotTouched(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"it has booted": boots,
		"it is Ready":   func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue },
		"a person's taint": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		},
		"a label": func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} },
	} {
		s := newScene(t, func(*facts) {})
		r := s.controller()
		s.must(s.looks(r))
		s.reads(time.Second)
		s.reads(time.Second)
		s.before = func(verb string, _ any) error {
			if verb == "patch" {
				s.set(change)
			}
			return nil
		}
		if err := s.looks(r); !apierrors.IsConflict(err) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
		if s.tainted() {
			t.Errorf("%s: it is tainted", name)
		}
	}
	mark := v1alpha1.OutOfServiceMark{BootID: boot1, Action: "action"}
	s := newScene(t, func(f *facts) {
		boots(f.node)
		f.node.Spec.Taints, f.node.Annotations = []corev1.Taint{mark.Taint()}, map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}
	})
	s.before = func(verb string, _ any) error {
		if verb == "patch" {
			s.set(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		}
		return nil
	}
	if err := s.looks(s.controller()); !apierrors.IsConflict(err) || !s.tainted() {
		t.Errorf("got %v; it is tainted: %t", err, s.tainted())
	}
}

// A controller that was stopped in between begins to count anew, and so does the next one.
func TestOnlyReadingsOfNowCount(t *testing.T) {
	s := newScene(t, func(*facts) {})
	r := s.controller()
	s.must(s.looks(r))
	s.reads(time.Second)
	s.reads(time.Minute)
	s.must(s.looks(r))
	if s.tainted() {
		t.Error("it is tainted by a reading of which nobody knows when it was")
	}
	for range 2 {
		s.reads(time.Second)
		s.must(s.looks(s.controller()))
		if s.tainted() {
			t.Error("a new controller has seen no number grow")
		}
	}
	slow := func(verb string, object any) error {
		if _, is := object.(*storagev1.VolumeAttachmentList); is && verb == "list" {
			s.now = s.now.Add(time.Minute)
		}
		return nil
	}
	s.before = slow
	s.must(s.looks(r))
	if s.tainted() {
		t.Error("it is tainted by a reading of a minute ago")
	}
	s.before = func(string, any) error { return nil }
	s.must(s.looks(r))
	s.reads(time.Second)
	s.reads(time.Second)
	s.must(s.looks(r))
	if !s.tainted() {
		t.Error("it is not tainted")
	}
}

func TestARunnerThatCountsAnewIsNotBelievedByOldNumbers(t *testing.T) {
	s := newScene(t, func(*facts) {})
	r := s.controller()
	s.must(s.looks(r))
	var action v1alpha1.NodeAction
	s.must(s.Get(t.Context(), client.ObjectKey{Name: "action"}, &action))
	for _, change := range []func(){
		func() { action.Status.Power.Held = 1 },                           // proved anew
		func() { action.UID, action.Status.Power.Held = "action-2", 1+7 }, // another one of its name
	} {
		change()
		s.must(s.Delete(t.Context(), action.DeepCopy()))
		again := action.DeepCopy()
		again.ResourceVersion, again.Finalizers, again.DeletionTimestamp = "", nil, nil
		if err := s.Create(t.Context(), again); err != nil { // a finalizer keeps it
			s.must(s.Get(t.Context(), client.ObjectKey{Name: "action"}, again))
			again.Finalizers = nil
			s.must(s.Update(t.Context(), again))
			again = action.DeepCopy()
			again.ResourceVersion, again.Finalizers, again.DeletionTimestamp = "", nil, nil
			s.must(s.Create(t.Context(), again))
		}
		s.now = s.now.Add(time.Second)
		s.must(s.looks(r))
		if s.tainted() {
			t.Fatal("it is tainted")
		}
	}
}

// Without the right to see what is left nobody could tell when the power may come back.
func TestWithoutItsRightsNothingIsFreed(t *testing.T) {
	s := newScene(t, func(*facts) {})
	r := s.controller()
	s.must(s.looks(r))
	s.reads(time.Second)
	s.reads(time.Second)
	refused := errors.New("volumeattachments.storage.k8s.io is forbidden")
	s.before = func(_ string, object any) error {
		if _, is := object.(*storagev1.VolumeAttachmentList); is {
			return refused
		}
		return nil
	}
	if err := s.looks(r); !errors.Is(err, refused) || s.tainted() {
		t.Errorf("got %v; it is tainted: %t", err, s.tainted())
	}
}

// A controller that dies at a write, before it has its effect or after, is followed by one that makes no
// write twice.
func TestAControllerThatDiesAtAnyWriteIsFollowedByOneThatGoesOn(t *testing.T) {
	died := errors.New("it was killed")
	for write := 1; write <= 3; write++ { // the taint is set, what it was for is told, it is taken away
		for _, lost := range []bool{false, true} {
			s := newScene(t, func(*facts) {})
			s.pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0"}}}
			asked, made, deaths := 0, 0, 0
			dies := func() error {
				if asked != write || deaths > 0 {
					return nil
				}
				deaths++
				return died
			}
			s.before = func(verb string, _ any) error {
				if verb != "patch" {
					return nil
				}
				asked++
				if lost {
					return nil
				}
				return dies()
			}
			s.patched = func() error {
				made++
				if !lost {
					return nil
				}
				return dies()
			}
			r := s.controller()
			for step := 0; made < 3 && step < 20; step++ {
				switch err := s.looks(r); {
				case errors.Is(err, died):
					r = s.controller()
				case err != nil:
					t.Fatal(err)
				}
				switch mark, tainted := v1alpha1.OutOfServiceMarkOf(s.node()); {
				case !tainted:
					s.reads(time.Second)
				case mark.Moved:
					s.set(boots)
				default:
					s.pods = nil
				}
			}
			if made != 3 || deaths != 1 || s.tainted() {
				t.Errorf("write %d, its answer lost: %t: %d writes, %d deaths, tainted: %t", write, lost, made, deaths, s.tainted())
			}
			s.must(s.looks(r)) // it is in service, and nothing begins anew
			if made != 3 || s.tainted() {
				t.Errorf("write %d, its answer lost: %t: it is tainted again", write, lost)
			}
		}
	}
}

func TestOfTwoControllersOneSetsTheTaint(t *testing.T) {
	s := newScene(t, func(*facts) {})
	a, b := s.controller(), s.controller()
	for _, r := range []*Reconciler{a, b} {
		s.must(s.looks(r))
	}
	s.reads(time.Second)
	s.reads(time.Second)
	nested := false
	s.before = func(verb string, _ any) error {
		if verb == "patch" && !nested {
			nested = true
			return s.looks(b) // just before the patch of the other one
		}
		return nil
	}
	if err := s.looks(a); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if !s.tainted() || len(s.node().Spec.Taints) != 1 {
		t.Errorf("it has %v", s.node().Spec.Taints)
	}
}

// Beyond what is in the cache nobody is asked: nodes without mark and action cost nothing.
func TestANodeThatNothingIsAboutIsNotAskedFor(t *testing.T) {
	s := newScene(t, func(f *facts) { f.action.Status.Power.Held = 0 })
	var asked []string
	s.before = func(verb string, _ any) error {
		asked = append(asked, verb)
		return nil
	}
	s.must(s.looks(s.controller()))
	if !slices.Equal(asked, []string{"get", "list", "list"}) {
		t.Errorf("asked were %v", asked)
	}
	s.set(func(n *corev1.Node) { n.Finalizers = nil })
	s.must(s.Delete(t.Context(), s.node()))
	s.must(s.looks(s.controller())) // with the node all is gone
}

func TestPeopleAreToldOnceWhyATaintStays(t *testing.T) {
	mark := v1alpha1.OutOfServiceMark{BootID: boot1, Action: "action"}
	s := newScene(t, func(f *facts) {
		f.node.Status.Conditions[0].Status = corev1.ConditionTrue
		f.node.Spec.Taints, f.node.Annotations = []corev1.Taint{mark.Taint()}, map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}
	})
	r := s.controller()
	for range 3 {
		s.must(s.looks(r))
	}
	if got := s.says(); !strings.Contains(got, "Warning OutOfServiceStays") || !strings.Contains(got, "in use twice") || len(s.told.Events) > 0 {
		t.Errorf("told was %q, and %d more", got, len(s.told.Events))
	}
	s.set(boots)
	s.pods = []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0", Finalizers: []string{"a/b"}, DeletionTimestamp: &metav1.Time{Time: start}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent"}, Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}},
	}
	for range 3 {
		s.must(s.looks(r))
	}
	got := s.says()
	for _, part := range []string{"Warning OutOfServiceStays", "not all is freed; pod ns/db-0: is told to end, and its finalizers keep it", "pod ns/agent: tolerates the taint"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
	if len(s.told.Events) > 0 {
		t.Errorf("%d more", len(s.told.Events))
	}
}
