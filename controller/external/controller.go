// Package external hands attempts of steps to the remediators of other programs, by the contract
// of NodeHealthCheck: it creates their object from a template, follows it, and deletes it.
//
// A NodeAction whose executor is External is the ledger: the claim, with the name of the object, is
// written before the one create, and why the object is to go before it is deleted. So a controller
// that stops at any point is followed by another one, and an object is created at most once for an
// action (invariant I2 of docs/design.md). The action ends, and its remediation returns its permit,
// when the object is gone, its finalizer included (I1).
//
// Nothing of another program is kept in a cache or watched. What is asked for does not have to
// exist: a kind that nobody has installed holds the step, with that reason.
package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/others"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/standing"
)

// claimer is who claims in the name of other programs.
const claimer = "the controller"

// rights tells what to do where the API server refuses.
const rights = "; grant the controller the rights by a ClusterRole with the label rbac.ext-remediation/aggregate-to-ext-remediation: \"true\" (docs/others.md)"

// Reconciler brings the actions that are for other programs to their ends.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Clock tells the time of decisions.
	Clock clock.PassiveClock

	backoff worker.Backoff
}

// workers is how many actions are looked at at the same time.
const workers = 8

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	r.backoff = worker.NewBackoff()
	of := func(object client.Object) bool {
		return object.(*v1alpha1.NodeAction).Spec.Executor == v1alpha1.ExecutorExternal
	}
	return worker.Loop{
		Name: "external", Key: "action", Workers: workers, Reconciler: r,
		Watches: []worker.Watch{{
			Kind: &v1alpha1.NodeAction{}, Handler: &handler.EnqueueRequestForObject{},
			Predicates: []predicate.Predicate{predicate.Funcs{
				CreateFunc: func(e event.CreateEvent) bool { return of(e.Object) },
				UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectNew) },
				DeleteFunc: func(event.DeleteEvent) bool { return false },
			}},
		}},
	}
}

// Reconcile takes the next step for one action.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var action v1alpha1.NodeAction
	err := r.Client.Get(ctx, request.NamespacedName, &action)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	var wait time.Duration
	switch {
	case err != nil:
		err = fmt.Errorf("reading action %s: %w", request.Name, err)
	case action.Spec.Executor != v1alpha1.ExecutorExternal:
	case action.Finished() != nil:
		wait, err = r.over(ctx, &action)
	case action.Status.Claim == nil && action.DeletionTimestamp != nil: // nobody cancels it any more
		err = r.finish(ctx, &action, outcome{v1alpha1.ReasonCancelled, "the action was deleted before it was started"})
	case action.Status.Claim == nil:
		err = r.begin(ctx, &action)
	case action.Status.External == nil: // somebody has written a claim of their own
		err = r.finish(ctx, &action, outcome{v1alpha1.ReasonInterrupted, "it was claimed, and nobody knows for which object"})
	default:
		wait, err = r.goOn(ctx, &action)
	}
	return r.backoff.Result(request.Name, wait, err)
}

// fresh is how old what was read of what people say may be when the action is claimed, and when its
// object is created.
const fresh = time.Second

// begin claims the action and creates its object, unless it must not begin. What takes long is done
// first: kinds of other programs may have conversion webhooks whose pods are on the dead node. What
// people say is read after that.
func (r *Reconciler) begin(ctx context.Context, action *v1alpha1.NodeAction) error {
	if end := r.foundLate(action); end != nil {
		return r.finish(ctx, action, *end)
	}
	f, end, err := r.stands(ctx, action)
	if err != nil || end != nil {
		return r.endedBy(ctx, action, end, err)
	}
	object, end, err := r.prepare(ctx, f, &f.Policy.StepWithHash(action.Spec.StepHash).External.TemplateRef)
	if err != nil || end != nil {
		return r.endedBy(ctx, action, end, err)
	}
	hold, err := others.Ask(ctx, r.Live, f.Node.Name, f.Node.UID, others.Step{
		Now: r.Clock.Now(), Takes: action.Spec.Timeout.Duration, Request: f.Remediation.Spec.Request,
	})
	if err != nil {
		return err
	}
	if hold.Why != "" {
		return r.finish(ctx, action, outcome{v1alpha1.ReasonRefused, hold.Why})
	}
	if end, err := r.admitted(ctx, object); err != nil || end != nil {
		return r.endedBy(ctx, action, end, err)
	}
	read := r.Clock.Now()
	if f, end, err = r.stands(ctx, action); err != nil || end != nil {
		return r.endedBy(ctx, action, end, err)
	}
	if end := r.foundLate(action); end != nil { // by now
		return r.finish(ctx, action, *end)
	}
	claimed, err := r.claim(ctx, action, f.Node, object)
	if err != nil {
		return err
	}
	if took := r.Clock.Now().Sub(read); took < 0 || took > fresh {
		if _, end, err := r.stands(ctx, claimed); err != nil || end != nil {
			return r.endedBy(ctx, claimed, end, err)
		}
	}
	return r.create(ctx, claimed, object)
}

// foundLate ends an action that has expired, nil if it has not. Its create may have arrived when its
// remediation waited for it no more: then nobody else ends it.
func (r *Reconciler) foundLate(action *v1alpha1.NodeAction) *outcome {
	now, expiresAt := r.Clock.Now(), action.Spec.ExpiresAt
	if expiresAt.After(now) {
		return nil
	}
	return ends(v1alpha1.ReasonExpired, "found at %s, after its expiresAt %s", now.UTC().Format(time.RFC3339), expiresAt.UTC().Format(time.RFC3339))
}

// endedBy ends an action for which nothing was created, unless that is not known.
func (r *Reconciler) endedBy(ctx context.Context, action *v1alpha1.NodeAction, end *outcome, err error) error {
	if err != nil {
		return err
	}
	return r.finish(ctx, action, *end)
}

// stands returns what was read of the action just now, and why it must not begin, nil if nothing
// forbids it.
func (r *Reconciler) stands(ctx context.Context, action *v1alpha1.NodeAction) (standing.Facts, *outcome, error) {
	f, err := r.facts(ctx, action)
	if err != nil {
		return f, nil, err
	}
	if refusal := standing.Refuses(f); refusal != nil {
		return f, &outcome{refusal.Reason, refusal.Message}, nil
	}
	if f.Policy.StepWithHash(action.Spec.StepHash).External == nil {
		return f, ends(v1alpha1.ReasonUnsupported, "the step is for a runner, and the action asks for another program"), nil
	}
	if is, was := f.Node.Status.NodeInfo.BootID, f.Remediation.Status.BootID; is != "" && was != "" && is != was { // I5
		return f, ends(v1alpha1.ReasonRefused, "node %s has booted since the fault was last confirmed: its boot ID is %s, and was %s", f.Node.Name, is, was), nil
	}
	return f, nil, nil
}

// admitted asks the API server whether it would create the object, and says why not; nil: it would.
// Webhooks of a remediator may not answer: its pods are on the dead node. Before the claim it is known
// that nothing was created then.
func (r *Reconciler) admitted(ctx context.Context, object *unstructured.Unstructured) (*outcome, error) {
	err := r.Client.Create(ctx, object.DeepCopy(), client.DryRunAll, fieldmanager.Controller)
	switch what := object.GetKind() + " " + object.GetName(); {
	case err == nil, apierrors.IsAlreadyExists(err): // create tells whose it is
		return nil, nil
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"): // a webhook of it
		return nil, nil
	case apierrors.IsInternalError(err): // a webhook has not answered
		return ends(v1alpha1.ReasonStartFailed, "%s would not be created: %v", what, err), nil
	default:
		return notMade(what, object.GroupVersionKind().GroupVersion(), err), ignoreRefusals(err)
	}
}

// facts reads what has to be known before the claim, from the API server.
func (r *Reconciler) facts(ctx context.Context, action *v1alpha1.NodeAction) (standing.Facts, error) {
	f := standing.Facts{Action: action}
	var node corev1.Node
	var remediation v1alpha1.Remediation
	var policy v1alpha1.RemedyPolicy
	var pause v1alpha1.RemediationBudget
	for _, read := range []struct {
		name   string
		object client.Object
		found  func()
	}{
		{action.Spec.NodeName, &node, func() { f.Node = &node }},
		{action.Spec.Remediation, &remediation, func() { f.Remediation = &remediation }},
		{action.Spec.Policy.Name, &policy, func() { f.Policy = &policy }},
		{v1alpha1.ClusterPauseBudget, &pause, func() { f.Pause = &pause }},
	} {
		switch err := r.Live.Get(ctx, types.NamespacedName{Name: read.name}, read.object); {
		case err == nil:
			read.found()
		case !absent(err):
			return f, fmt.Errorf("reading %T %s: %w", read.object, read.name, err)
		}
	}
	if f.Remediation == nil || f.Remediation.Spec.Request == nil {
		return f, nil
	}
	var asked v1alpha1.NodemendRemediation
	request := f.Remediation.Spec.Request
	switch err := r.Live.Get(ctx, types.NamespacedName{Namespace: request.Namespace, Name: request.Name}, &asked); {
	case err == nil:
		f.Asked = &asked
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("reading NodemendRemediation %s: %w", request, err)
	}
	return f, nil
}

// prepare makes the object of the action from the template. What is wrong with that ends the action
// before it has begun.
func (r *Reconciler) prepare(ctx context.Context, f standing.Facts, ref *v1alpha1.TemplateReference) (*unstructured.Unstructured, *outcome, error) {
	template := empty(&v1alpha1.ExternalObject{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
	what := ref.Kind + " " + ref.Name
	if ref.Namespace != "" {
		what = ref.Kind + " " + ref.Namespace + "/" + ref.Name
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(template), template); err != nil {
		return nil, notMade(what, kindOf(ref).GroupVersion(), err), ignoreRefusals(err)
	}
	machine, end, err := r.machine(ctx, f.Node, template)
	if end != nil || err != nil {
		return nil, end, err
	}
	object, err := fromTemplate(template, f.Action, f.Node, machine)
	if err != nil {
		return nil, ends(v1alpha1.ReasonStartFailed, "%v", err), nil
	}
	there := object.DeepCopy()
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), there); {
	case err == nil:
		return nil, ends(v1alpha1.ReasonRefused, "there is a %s %s already, which is not of this action and is not touched: owned by %s",
			there.GetKind(), client.ObjectKeyFromObject(there), owners(there)), nil
	case !absent(err):
		return nil, notMade(object.GetKind()+" "+object.GetName(), kindOf(ref).GroupVersion(), err), ignoreRefusals(err)
	}
	return object, nil, nil
}

// machine returns the Machine of the node as the owner of an object that needs one. Which that is the
// node's annotations say, and whoever has root on a node can write those: so the Machine has to name
// the node itself, which Cluster API or OpenShift writes. Else another machine would be switched off or
// deleted in the place of this one.
func (r *Reconciler) machine(ctx context.Context, node *corev1.Node, template *unstructured.Unstructured) (*metav1.OwnerReference, *outcome, error) {
	switch template.GetKind() {
	case metal3 + "Template":
	case machineDeletion + "Template":
		namespace, name, _ := strings.Cut(node.Annotations["machine.openshift.io/machine"], "/")
		_, end, err := r.machineOf(ctx, node, "machine.openshift.io", namespace, name, "v1beta1")
		return nil, end, err
	default:
		return nil, nil, nil
	}
	namespace, name := node.Annotations["cluster.x-k8s.io/cluster-namespace"], node.Annotations["cluster.x-k8s.io/machine"]
	if name == "" || namespace != template.GetNamespace() {
		return nil, ends(v1alpha1.ReasonStartFailed,
			"a %s has to be in the namespace of the node's Machine: the template is in %q, and by its annotations node %s has Machine %q in %q",
			metal3, template.GetNamespace(), node.Name, name, namespace), nil
	}
	machine, end, err := r.machineOf(ctx, node, "cluster.x-k8s.io", namespace, name, "v1beta2", "v1beta1")
	if machine == nil {
		return nil, end, err
	}
	return &metav1.OwnerReference{APIVersion: machine.GetAPIVersion(), Kind: "Machine", Name: name, UID: machine.GetUID()}, nil, nil
}

// machineOf returns the Machine of this name, in the first of these versions that is served, if it is
// the node's.
func (r *Reconciler) machineOf(ctx context.Context, node *corev1.Node, group, namespace, name string, versions ...string) (*unstructured.Unstructured, *outcome, error) {
	what := "Machine " + namespace + "/" + name
	if name == "" {
		return nil, ends(v1alpha1.ReasonStartFailed, "node %s names no Machine of %s in its annotations", node.Name, group), nil
	}
	var machine *unstructured.Unstructured
	var err error
	for _, version := range versions {
		machine = empty(&v1alpha1.ExternalObject{APIVersion: group + "/" + version, Kind: "Machine", Namespace: namespace, Name: name})
		if err = r.Live.Get(ctx, client.ObjectKeyFromObject(machine), machine); !notServed(err) {
			break
		}
	}
	if err != nil {
		return nil, notMade(what, schema.GroupVersion{Group: group}, err), ignoreRefusals(err)
	}
	of, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name") // one of another form names none
	uid, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "uid")
	if of != node.Name || uid != "" && uid != string(node.UID) {
		return nil, ends(v1alpha1.ReasonStartFailed,
			"%s, which the annotations of node %s name, is not that of this node: its status.nodeRef is %q. Who has written these annotations?",
			what, node.Name, strings.TrimSpace(of+" "+uid)), nil
	}
	return machine, nil, nil
}

// notMade says why nothing was created, nil if the API server has not said so.
func notMade(what string, group schema.GroupVersion, err error) *outcome {
	switch {
	case notServed(err):
		return ends(v1alpha1.ReasonStartFailed, "this cluster does not know the kind of %s in %s: is its operator installed, and is this the version that it serves?", what, group)
	case apierrors.IsNotFound(err):
		return ends(v1alpha1.ReasonStartFailed, "there is no %s", what)
	case apierrors.IsForbidden(err):
		return ends(v1alpha1.ReasonStartFailed, "%s: %v%s", what, err, rights)
	case refused(err), notAdmitted(err):
		return ends(v1alpha1.ReasonStartFailed, "%s: %v", what, err)
	default:
		return nil
	}
}

// absent reports whether the API server has said that there is no such object. A kind that it does
// not serve, or not yet, is answered by a 404 as well.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// notServed reports whether the API server does not serve the kind, in this version.
func notServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// refused reports whether the API server has answered that it has done nothing and will not.
func refused(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// notAdmitted reports whether a write has not come as far as being executed.
func notAdmitted(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

func ignoreRefusals(err error) error {
	if refused(err) {
		return nil
	}
	return err
}

// claim writes down that the object is about to be created. It fails with a conflict if anybody has
// changed the action since it was read.
func (r *Reconciler) claim(ctx context.Context, action *v1alpha1.NodeAction, node *corev1.Node, object *unstructured.Unstructured) (*v1alpha1.NodeAction, error) {
	claimed := action.DeepCopy()
	claimed.Status.Claim = &v1alpha1.Claim{
		RunnerID: claimer, BootID: node.Status.NodeInfo.BootID, Time: metav1.NewTime(r.Clock.Now().Truncate(time.Second)), Remedy: v1alpha1.RemedyExternal,
	}
	claimed.Status.External = &v1alpha1.ExternalStatus{Object: v1alpha1.ExternalObject{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
	}}
	if err := r.patch(ctx, action, claimed); err != nil {
		return nil, fmt.Errorf("claiming action %s: %w", action.Name, err)
	}
	if claimed.Status.External == nil {
		return nil, errors.New("the API server drops status.external of a NodeAction: install the CRDs of this version of Nodemend")
	}
	return claimed, nil
}

// create creates the object, once: by whoever has just written the claim. If the answer is lost,
// whoever looks next finds the object, or that there is none.
func (r *Reconciler) create(ctx context.Context, action *v1alpha1.NodeAction, object *unstructured.Unstructured) error {
	if late := r.Clock.Now().Sub(action.Status.Claim.Time.Time); late > createWindow/2 { // this machine has slept
		return r.finish(ctx, action, outcome{v1alpha1.ReasonStartFailed, fmt.Sprintf("it was claimed %s ago, and nothing was created", late.Round(time.Second))})
	}
	bounded, cancel := context.WithTimeout(ctx, createTime)
	defer cancel()
	name := action.Status.External.Object.String()
	err := r.Client.Create(bounded, object, fieldmanager.Controller)
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err): // since a moment ago
		there := empty(&action.Status.External.Object)
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(there), there); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if !ours(there, action) {
			return r.finish(ctx, action, outcome{v1alpha1.ReasonRefused, "there is a " + name + " already, which is not of this action and is not touched"})
		}
		object = there // the request was sent twice
	default:
		if end := notMade(name, object.GroupVersionKind().GroupVersion(), err); end != nil {
			return r.finish(ctx, action, *end)
		}
		return fmt.Errorf("creating %s: %w", name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Created the object of another program", "node", action.Spec.NodeName, "object", name, "uid", object.GetUID())
	seen := action.DeepCopy()
	seen.Status.External.Object.UID = object.GetUID()
	if err := r.patch(ctx, action, seen); err != nil {
		return fmt.Errorf("writing the status of action %s: %w", action.Name, err)
	}
	return nil
}

// goOn takes the next step for a claimed action.
func (r *Reconciler) goOn(ctx context.Context, action *v1alpha1.NodeAction) (time.Duration, error) {
	l, err := r.look(ctx, action)
	if err != nil {
		return r.cannot(ctx, action, "reading", err)
	}
	d := follow(l)
	name := action.Status.External.Object.String()
	switch d.verb {
	case finish:
		return 0, r.finish(ctx, action, d.end)
	case write:
		changed := action.DeepCopy()
		changed.Status.External = &d.progress
		if err := r.patch(ctx, action, changed); err != nil {
			return 0, fmt.Errorf("writing the status of action %s: %w", action.Name, err)
		}
		return time.Second, nil // or its event comes before
	case expire:
		err := r.expire(ctx, l.object)
		if err == nil {
			ctrl.LoggerFrom(ctx).Info("Told the remediator of another program to stop", "node", action.Spec.NodeName, "object", name, "why", action.Status.External.Stop.Message)
			return time.Second, nil
		}
		if l.grace() > 0 || apierrors.IsConflict(err) {
			return r.cannot(ctx, action, "telling "+name+" to stop", err)
		}
		ctrl.LoggerFrom(ctx).Error(err, "The remediator of another program can't be told to stop, so its object is deleted", "node", action.Spec.NodeName, "object", name)
		return r.removes(ctx, action, l.object)
	case remove:
		return r.removes(ctx, action, l.object)
	default:
		return d.wait, nil
	}
}

// expire tells the remediator that the time of its object is over.
func (r *Reconciler) expire(ctx context.Context, object *unstructured.Unstructured) error {
	expired := object.DeepCopy()
	annotations := expired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[timedOutAnnotation] = r.Clock.Now().UTC().Format(time.RFC3339)
	expired.SetAnnotations(annotations)
	return r.Client.Patch(ctx, expired, optimistic.Since(object), fieldmanager.Controller)
}

// removes deletes the object of an action, and tells so.
func (r *Reconciler) removes(ctx context.Context, action *v1alpha1.NodeAction, object *unstructured.Unstructured) (time.Duration, error) {
	name := action.Status.External.Object.String()
	if err := r.remove(ctx, object); err != nil {
		return r.cannot(ctx, action, "deleting "+name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted the object of another program", "node", action.Spec.NodeName, "object", name, "why", action.Status.External.Stop.Message)
	return time.Second, nil
}

// look reads what is known of a claimed action. A kind that is not served tells nothing, unless it is
// still so long after the remediator's time: then there are no objects of it.
func (r *Reconciler) look(ctx context.Context, action *v1alpha1.NodeAction) (look, error) {
	l := look{action: action, now: r.Clock.Now()}
	object := empty(&action.Status.External.Object)
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case err == nil:
		l.object = object
	case !absent(err) && (!notServed(err) || !l.now.After(l.end().Add(unservedFor))):
		return l, err
	}
	if l.object == nil || action.Status.External.Stop == nil {
		return l, nil
	}
	var node corev1.Node
	switch err := r.Live.Get(ctx, types.NamespacedName{Name: action.Spec.NodeName}, &node); {
	case apierrors.IsNotFound(err):
		l.nodeGone = true
	case err != nil:
		return l, fmt.Errorf("reading node %s: %w", action.Spec.NodeName, err)
	case node.UID != action.Spec.NodeUID:
		ready := v1alpha1.FindNodeCondition(&node, string(corev1.NodeReady))
		l.nodeGone = true
		l.back = ready != nil && ready.Status == corev1.ConditionTrue && !node.CreationTimestamp.Add(backFor).After(l.now)
	}
	return l, nil
}

// remove deletes the object, and no other one of its name. That it is gone is success.
func (r *Reconciler) remove(ctx context.Context, object *unstructured.Unstructured) error {
	uid := object.GetUID()
	return client.IgnoreNotFound(r.Client.Delete(ctx, object.DeepCopy(), client.Preconditions{UID: &uid}))
}

// over lets an action go that has finished, after it has swept behind it.
func (r *Reconciler) over(ctx context.Context, action *v1alpha1.NodeAction) (time.Duration, error) {
	left := deadline.Over(action).Sub(r.Clock.Now())
	if action.Finished().Reason == v1alpha1.ReasonInterrupted {
		if err := r.sweep(ctx, action); err != nil {
			return 0, err
		}
		if left > 0 {
			return min(poll, left), nil
		}
	}
	released := action.DeepCopy()
	if !controllerutil.RemoveFinalizer(released, v1alpha1.ExternalFinalizer) {
		return 0, nil
	}
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, released, optimistic.Since(action), fieldmanager.Controller)); err != nil {
		return 0, fmt.Errorf("removing the finalizer of action %s: %w", action.Name, err)
	}
	return 0, nil
}

// sweep deletes an object that comes after all, although nobody knew of it when the action ended. Its
// remediation waits for what may still be at work, and keeps its permit. One that comes later, from a
// controller that has slept, is found by the next controller that starts.
func (r *Reconciler) sweep(ctx context.Context, action *v1alpha1.NodeAction) error {
	var whole v1alpha1.NodeAction // the cache has it without
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(action), &whole); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("reading action %s: %w", action.Name, err))
	}
	if whole.UID != action.UID || whole.Status.External == nil {
		return nil
	}
	l, err := r.look(ctx, &whole)
	if notServed(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if l.object != nil && ours(l.object, &whole) {
		if err := r.remove(ctx, l.object); err != nil {
			return fmt.Errorf("deleting %s: %w", whole.Status.External.Object.String(), err)
		}
	}
	return nil
}

// cannot shows what the API server refuses, and tries again: the action does not end as long as the
// object may be there.
func (r *Reconciler) cannot(ctx context.Context, action *v1alpha1.NodeAction, what string, err error) (time.Duration, error) {
	err = fmt.Errorf("%s: %w", what, err)
	said := err.Error()
	switch {
	case apierrors.IsForbidden(err):
		said += rights
	case notServed(err):
		said = what + ": this cluster does not serve its kind in this version, so nobody knows whether it is still there"
	case !apierrors.IsInvalid(err):
		return 0, err
	}
	changed := action.DeepCopy()
	changed.Status.External.Said = cut.Head(said, maxSaid)
	if changed.Status.External.Said == action.Status.External.Said {
		return poll, nil
	}
	ctrl.LoggerFrom(ctx).Error(err, "What is asked of another program's object is refused", "node", action.Spec.NodeName)
	return poll, r.patch(ctx, action, changed)
}

// finish ends the action.
func (r *Reconciler) finish(ctx context.Context, action *v1alpha1.NodeAction, end outcome) error {
	finished := action.DeepCopy()
	meta.SetStatusCondition(&finished.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: end.reason, Message: cut.Head(end.message, maxSaid),
		LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	if err := r.patch(ctx, action, finished); err != nil {
		return fmt.Errorf("ending action %s: %w", action.Name, err)
	}
	return nil
}

// patch writes the status of an action that has not changed since it was read.
func (r *Reconciler) patch(ctx context.Context, before, after *v1alpha1.NodeAction) error {
	return r.Client.Status().Patch(ctx, after, optimistic.Since(before), fieldmanager.Controller)
}

// owners of an object, for people.
func owners(object *unstructured.Unstructured) string {
	all := ""
	for _, owner := range object.GetOwnerReferences() {
		if all != "" {
			all += ", "
		}
		all += owner.Kind + " " + owner.Name
	}
	if all == "" {
		return "nobody"
	}
	return all
}
