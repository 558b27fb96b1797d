package external

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/worker"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

const (
	timeout   = 10 * time.Minute
	finalizer = "self-node-remediation.medik8s.io/snr-finalizer"
)

// scene is a cluster with one action that is for a remediator.
type scene struct {
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	c     client.Client
	r     *Reconciler
	// writes of the controller so far, and creates of remediators' objects that were executed.
	writes, created int
	// at is the number of the write that fails, 0 for none: before it is executed, or after.
	at     int
	before bool
	// refuse answers a request in the place of the API server; nil: it does not.
	refuse func(verb string, object client.Object) error
}

// dryRun is the verb of a create that only asks.
const dryRun = "dry run"

var errStopped = errors.New("the controller has stopped")

func remediation() *v1alpha1.Remediation {
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "w1-r", UID: "r-uid"},
		Spec: v1alpha1.RemediationSpec{
			NodeName: "w1", NodeUID: "w1-uid", Policy: v1alpha1.PolicyReference{Name: "p", UID: "p-uid"}, Steps: []v1alpha1.Step{step()},
		},
		Status: v1alpha1.RemediationStatus{Action: "w1-r-1", Step: 1, Attempt: 1},
	}
}

func step() v1alpha1.Step {
	return v1alpha1.Step{
		External: &v1alpha1.ExternalRemedy{TemplateRef: v1alpha1.TemplateReference{
			APIVersion: "self-node-remediation.medik8s.io/v1alpha1", Kind: "SelfNodeRemediationTemplate", Namespace: "medik8s", Name: "automatic",
		}},
		Timeout: v1alpha1.Duration{Duration: timeout}, VerifyTimeout: v1alpha1.Duration{Duration: time.Minute}, Attempts: 1,
	}
}

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "w1-uid"},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: "Broken", Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-1"},
		},
	}
}

func policy() *v1alpha1.RemedyPolicy {
	return &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p-uid"},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: "Broken", Status: corev1.ConditionTrue}}, Steps: []v1alpha1.Step{step()},
		},
	}
}

func action(t *testing.T) *v1alpha1.NodeAction {
	t.Helper()
	s := step()
	hash, err := s.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{
			Name: "w1-r-1", UID: "action-uid", CreationTimestamp: metav1.NewTime(start), Finalizers: []string{v1alpha1.ExternalFinalizer},
		},
		Spec: v1alpha1.NodeActionSpec{
			NodeName: "w1", NodeUID: "w1-uid", Executor: v1alpha1.ExecutorExternal, Remediation: "w1-r", RemediationUID: "r-uid",
			Policy: v1alpha1.PolicyReference{Name: "p", UID: "p-uid"}, StepHash: hash, Step: 1, Attempt: 1,
			Timeout: v1alpha1.Duration{Duration: timeout}, ExpiresAt: metav1.NewTime(start.Add(time.Minute)),
		},
	}
}

func template(annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "self-node-remediation.medik8s.io/v1alpha1", "kind": "SelfNodeRemediationTemplate",
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"remediationStrategy": "Automatic"}}},
	}}
	object.SetNamespace("medik8s")
	object.SetName("automatic")
	object.SetAnnotations(annotations)
	return object
}

// known are the kinds that Go types are for.
var known = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
})

// newScene returns one with these objects; nil: all that the action needs.
func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	if objects == nil {
		objects = []client.Object{node(), remediation(), policy(), template(nil)}
	}
	scheme, err := known()
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, clock: clocktesting.NewFakePassiveClock(start)}
	s.c = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeAction{}).
		WithObjects(append(objects, action(t))...).Build()
	s.restart()
	return s
}

// restart lets another controller go on.
func (s *scene) restart() {
	write := func(verb string, object client.Object, do func() error) error {
		if s.refuse != nil {
			if err := s.refuse(verb, object); err != nil {
				return err
			}
		}
		s.writes++
		if s.writes == s.at && s.before {
			return errStopped
		}
		err := do()
		if s.writes == s.at {
			return errStopped
		}
		return err
	}
	through := interceptor.NewClient(s.c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if s.refuse != nil {
				if err := s.refuse("get", object); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, object, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			var options client.CreateOptions
			options.ApplyOptions(opts)
			if len(options.DryRun) > 0 {
				if s.refuse != nil {
					return s.refuse(dryRun, object)
				}
				return nil
			}
			return write("create", object, func() error {
				s.created++
				object.SetUID("object-uid")
				return c.Create(ctx, object, opts...)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			return write("delete", object, func() error { return c.Delete(ctx, object, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", object, func() error { return c.Patch(ctx, object, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, part string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch", object, func() error { return c.SubResource(part).Patch(ctx, object, patch, opts...) })
		},
	})
	s.r = &Reconciler{Client: through, Live: through, Clock: s.clock}
	s.r.Loop()
}

// look lets the controller look at the action. If it stops, another one goes on later.
func (s *scene) look() {
	s.t.Helper()
	_, err := s.r.Reconcile(s.t.Context(), worker.Request("w1-r-1"))
	if errors.Is(err, errStopped) {
		s.restart()
	} else if err != nil && s.refuse == nil {
		s.t.Fatal(err)
	}
	if s.gone() {
		return
	}
	if s.action().Finished() != nil && s.object() != nil && s.object().GetUID() == "object-uid" {
		s.t.Fatal("the action has finished, and its object is still there: its permit is not kept for that long")
	}
	if s.created > 1 {
		s.t.Fatal("the object was created twice")
	}
}

// settle lets the controller look until it writes nothing: the event of each write wakes it.
func (s *scene) settle() {
	s.t.Helper()
	for range 20 {
		before := s.writes
		s.look()
		if s.writes == before || s.action().Finished() != nil {
			return
		}
	}
	s.t.Errorf("it writes for ever; the action says %q", s.action().Status.External.Said)
}

// gone reports whether the action is.
func (s *scene) gone() bool {
	s.t.Helper()
	return apierrors.IsNotFound(s.c.Get(s.t.Context(), client.ObjectKey{Name: "w1-r-1"}, &v1alpha1.NodeAction{}))
}

func (s *scene) action() *v1alpha1.NodeAction {
	s.t.Helper()
	var a v1alpha1.NodeAction
	if err := s.c.Get(s.t.Context(), client.ObjectKey{Name: "w1-r-1"}, &a); err != nil {
		s.t.Fatal(err)
	}
	return &a
}

// object returns what is under the name of the remediator's object, nil if there is none.
func (s *scene) object() *unstructured.Unstructured {
	s.t.Helper()
	object := empty(&v1alpha1.ExternalObject{APIVersion: "self-node-remediation.medik8s.io/v1alpha1", Kind: "SelfNodeRemediation", Namespace: "medik8s", Name: "w1"})
	if err := s.c.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return nil
	}
	return object
}

// change changes the object as others do.
func (s *scene) change(change func(*unstructured.Unstructured)) {
	s.t.Helper()
	object := s.object()
	if object == nil {
		return
	}
	change(object)
	if err := s.c.Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// says lets a remediator write its conditions.
func (s *scene) says(conditions ...string) {
	s.t.Helper()
	s.change(func(object *unstructured.Unstructured) {
		var list []any
		for i := 0; i < len(conditions); i += 2 {
			list = append(list, map[string]any{"type": conditions[i], "status": conditions[i+1], "reason": "Played"})
		}
		object.Object["status"] = map[string]any{"conditions": list}
	})
}

// recall is what the remediation does.
func (s *scene) recall(isClear bool) {
	s.t.Helper()
	one := step()
	a := attempt.By(&one).Tell(s.action())
	if err := a.Recall(s.t.Context(), s.c, attempt.Recall{Clear: isClear, Message: "told to stop", At: s.clock.Now()}); err != nil {
		s.t.Fatal(err)
	}
}

// remediator is one that keeps the contract, as SelfNodeRemediation does. What does not keep it, it
// leaves alone.
type remediator struct {
	// deaf: it has died.
	deaf bool
	// does is what it does with an object that is to be worked on.
	does func(s *scene)
}

// look lets it look at the object.
func (m *remediator) look(s *scene) {
	s.t.Helper()
	object := s.object()
	if m.deaf || object == nil {
		return
	}
	annotations := object.GetAnnotations()
	owners := object.GetOwnerReferences()
	strategy, _, _ := unstructured.NestedString(object.Object, "spec", "remediationStrategy")
	if annotations[nodeNameAnnotation] != "w1" || annotations[templateNameAnnotation] != "automatic" || strategy != "Automatic" ||
		len(owners) != 1 || owners[0].UID != "action-uid" || owners[0].Controller != nil || object.GetLabels()[partOfLabel] == "" {
		s.t.Fatalf("a remediator does not take this for its own: %v", object.Object)
	}
	_, expired := annotations[timedOutAnnotation]
	if expired {
		if _, err := time.Parse(time.RFC3339, annotations[timedOutAnnotation]); err != nil {
			s.t.Fatal(err)
		}
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		s.change(func(o *unstructured.Unstructured) { controllerutil.RemoveFinalizer(o, finalizer) })
	case expired:
		s.says(processing, "False", succeeded, "False")
	case !controllerutil.ContainsFinalizer(object, finalizer):
		s.change(func(o *unstructured.Unstructured) { controllerutil.AddFinalizer(o, finalizer) })
		s.says(processing, "True", succeeded, "Unknown")
	case m.does != nil:
		m.does(s)
	}
}
