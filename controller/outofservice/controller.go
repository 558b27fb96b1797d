// Package outofservice frees pods and volumes of nodes that are proved to be off: it sets the taint
// node.kubernetes.io/out-of-service, and takes it away when the node is back (invariant I10 of
// docs/design.md).
//
// Kubernetes believes that taint blindly: it tears the volumes even from a node that is Ready. So it
// is set only on a proof that the remote runner has kept in the NodeAction or NodeMaintenance, for the
// boot that the Node says, while the remote runner keeps the machine off, within seconds after it was read so;
// or on the word of a person, in a NodeMaintenance, for that boot.
// All of that is read from the API server itself, and the patch fails if the Node has changed since.
//
// A request is one node. What is to be taken away is known by the mark on the Node, whatever has
// become of action, remediation and policy. For a maintenance, it is not taken away before that ends.
package outofservice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/power/proof"
)

const (
	// patchTime bounds a patch: one that is on its way for longer may arrive when the machine is on.
	patchTime = 5 * time.Second
	// poll is how often a tainted node is looked at while its pods are to move, slow how often later,
	// or a person's word frees nothing, and ask how often one whose machine is kept off.
	poll, slow, ask = 3 * time.Second, 30 * time.Second, 2 * time.Second
	// keptReadings is how many older numbers are remembered: two are needed.
	keptReadings = 4
)

// Reconciler sets the taint, and takes it away.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Pods returns the pods of a node as they are now.
	Pods func(ctx context.Context, node string) ([]corev1.Pod, error)
	// Steady is a clock that nobody sets, for what passes; Now tells the time, as the API server has it.
	Steady, Now func() time.Time
	// Events tells people what has changed.
	Events events.EventRecorder

	backoff worker.Backoff

	mu   sync.Mutex
	seen map[string]sighting // by the name of the node
	told map[string]string   // what people were told last, by the name of the node
}

// sighting is what this process has seen of how often a machine was read off, by an action or a
// maintenance.
type sighting struct {
	by       types.UID
	readings readings
}

// Reconcile looks at one node.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	again, err := r.reconcile(ctx, request.Name)
	return r.backoff.Result(request.Name, again, err)
}

// reconcile returns after how long to look again; 0: when something changes.
func (r *Reconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	var node corev1.Node
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &node); {
	case apierrors.IsNotFound(err): // with the node, taint and mark are gone
		r.forget(name)
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading node %s: %w", name, err)
	}
	if marked(&node) {
		return r.keep(ctx, name)
	}
	by, words, err := r.waiting(ctx, &node)
	if by == "" && len(words) == 0 || err != nil {
		r.forget(name)
		return 0, err
	}
	if by == "" {
		return r.heed(ctx, words, name)
	}
	freed, _, err := r.free(ctx, v1alpha1.OutOfServiceMark{Action: by}, name)
	switch {
	case freed || err != nil:
		return poll, err
	case len(words) > 0: // that may wait in vain
		if _, err := r.heed(ctx, words, name); err != nil {
			return 0, err
		}
	}
	return ask, nil
}

// heed frees on one of the words of people, and tells them if that can't be: they wait. Nothing of the
// machine is read meanwhile, so there is no hurry.
func (r *Reconciler) heed(ctx context.Context, words []string, name string) (time.Duration, error) {
	var refused []string
	for _, by := range words {
		freed, why, err := r.free(ctx, v1alpha1.OutOfServiceMark{Action: by}, name)
		switch {
		case err != nil:
			return 0, err
		case freed:
			return poll, nil
		case why != "":
			refused = append(refused, why)
		}
	}
	if len(refused) > 0 {
		r.tell(name, corev1.EventTypeWarning, eventNotFreed, strings.Join(refused, ". "))
	}
	return slow, nil
}

func marked(node *corev1.Node) bool {
	_, is := node.Annotations[v1alpha1.OutOfServiceAnnotation]
	return is
}

// waiting returns the action or maintenance, as in a mark, by which a machine is kept off until somebody
// frees its pods and volumes, and, beside a maintenance, those in which people have said that it is off.
// Both are empty if there are none in the cache.
func (r *Reconciler) waiting(ctx context.Context, node *corev1.Node) (by string, words []string, err error) {
	var actions v1alpha1.NodeActionList
	if err := r.Client.List(ctx, &actions, client.MatchingFields{index.ActionsByNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return "", nil, fmt.Errorf("listing the actions of node %s: %w", node.Name, err)
	}
	for i := range actions.Items {
		if waits(&actions.Items[i]) {
			return actions.Items[i].Name, nil, nil
		}
	}
	var maintenances v1alpha1.NodeMaintenanceList
	if err := r.Client.List(ctx, &maintenances, client.MatchingFields{index.MaintenancesByNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return "", nil, fmt.Errorf("listing the maintenances of node %s: %w", node.Name, err)
	}
	for i := range maintenances.Items {
		switch m := &maintenances.Items[i]; {
		case maintenanceWaits(m):
			by = v1alpha1.ProofOfMaintenance(m.Name)
		case wordWaits(m) && m.Spec.MachineOff.BootID == node.Status.NodeInfo.BootID:
			words = append(words, v1alpha1.ProofOfMaintenance(m.Name))
		}
	}
	slices.Sort(words) // a cache has no order
	return by, words, nil
}

// waits reports whether the remote runner has said of an action that the machine is off, and is to
// stay so until somebody has freed its pods and volumes.
func waits(action *v1alpha1.NodeAction) bool {
	p := action.Status.Power
	return action.Finished() == nil && p != nil && p.Phase == string(proof.ProvedOff) && p.Held > 0
}

// free sets the taint if all rules hold. The mark has no boot ID yet. If they do not, why says for people
// that somebody's word frees nothing; "" where nobody has given it.
func (r *Reconciler) free(ctx context.Context, mark v1alpha1.OutOfServiceMark, name string) (freed bool, why string, err error) {
	f, err := r.read(ctx, mark, name)
	if err != nil {
		return false, "", err
	}
	if f.action == nil && f.maintenance == nil {
		return false, "", nil
	}
	why = r.refusal(ctx, &f)
	if why == "" { // without the right to see what is left, nobody could tell the remote runner
		if _, err := r.attachments(ctx); err != nil {
			return false, "", err
		}
		why = r.refusal(ctx, &f) // that may have taken long
	}
	switch {
	case why != "" && f.word != nil && f.node != nil:
		return false, fmt.Sprintf("%s has said in %s that the machine is off, and pods and volumes are not freed: %s", f.word.By, f.by(), why), nil
	case why != "":
		return false, "", nil
	}
	mark.BootID = f.node.Status.NodeInfo.BootID
	patchCtx, done := context.WithTimeout(ctx, patchTime)
	defer done()
	if err := r.patch(patchCtx, name, setPatch(f.node, mark)); err != nil {
		return false, "", fmt.Errorf("setting the taint out-of-service of node %s: %w", name, err)
	}
	proved := f.evidence()
	ctrl.LoggerFrom(ctx).Info("Pods and volumes are freed", "by", f.by(), "bootID", mark.BootID, "proof", proved)
	r.tell(name, corev1.EventTypeNormal, eventSet, fmt.Sprintf("pods and volumes are freed by the taint out-of-service, for %s: %s", f.by(), proved))
	return true, "", nil
}

// refusal asks the rules, with how long ago the machine was read off, or a person's word, by now.
func (r *Reconciler) refusal(ctx context.Context, f *facts) string {
	f.off = r.off(*f)
	if f.word != nil {
		f.off = r.Steady().Sub(f.asked)
	}
	rule, why := refusal(*f)
	if why != "" {
		ctrl.LoggerFrom(ctx).V(1).Info("Pods and volumes are not freed", "rule", rule, "why", why)
	}
	return why
}

// read reads all facts from the API server itself, the action or maintenance first.
func (r *Reconciler) read(ctx context.Context, mark v1alpha1.OutOfServiceMark, name string) (f facts, err error) {
	asked := r.Steady()
	remediation, of := "", ""
	if maintenance, is := mark.Maintenance(); is {
		f.maintenance, err = get(ctx, r.Live, maintenance, &v1alpha1.NodeMaintenance{})
		if f.maintenance == nil || err != nil {
			return f, err
		}
		if by := f.maintenance.Spec.Remediation; by != nil {
			remediation = by.Name
		}
		of = f.maintenance.Spec.NodeName
		if !maintenanceWaits(f.maintenance) {
			f.word = f.maintenance.Spec.MachineOff
		}
	} else {
		f.action, err = get(ctx, r.Live, mark.Action, &v1alpha1.NodeAction{})
		if f.action == nil || err != nil {
			return f, err
		}
		remediation, of = f.action.Spec.Remediation, f.action.Spec.NodeName
	}
	if of != name {
		return f, fmt.Errorf("%s is for node %s, not %s", f.by(), of, name)
	}
	r.sight(f, name, asked)
	if remediation != "" {
		if f.remediation, err = get(ctx, r.Live, remediation, &v1alpha1.Remediation{}); err != nil {
			return f, err
		}
	}
	policy := ""
	if f.action != nil {
		policy = f.action.Spec.Policy.Name
	} else if f.remediation != nil {
		policy = f.remediation.Spec.Policy.Name
	}
	if policy != "" {
		if f.policy, err = get(ctx, r.Live, policy, &v1alpha1.RemedyPolicy{}); err != nil {
			return f, err
		}
	}
	if f.pause, err = get(ctx, r.Live, v1alpha1.ClusterPauseBudget, &v1alpha1.RemediationBudget{}); err != nil {
		return f, err
	}
	if f.word != nil {
		var actions v1alpha1.NodeActionList
		if err := r.Live.List(ctx, &actions, client.MatchingFields{index.ActionsByNode: name}); err != nil {
			return f, fmt.Errorf("listing the actions of node %s: %w", name, err)
		}
		var maintenances v1alpha1.NodeMaintenanceList
		if err := r.Live.List(ctx, &maintenances, client.MatchingFields{index.MaintenancesByNode: name}); err != nil {
			return f, fmt.Errorf("listing the maintenances of node %s: %w", name, err)
		}
		var lease coordinationv1.Lease
		if err := client.IgnoreNotFound(r.Live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: name}, &lease)); err != nil {
			return f, fmt.Errorf("reading the Lease of node %s: %w", name, err)
		}
		f.actions, f.maintenances, f.now, f.asked, f.renewed = actions.Items, maintenances.Items, r.Now(), asked, v1alpha1.LeaseRenewed(&lease)
	}
	f.node, err = get(ctx, r.Live, name, &corev1.Node{})
	return f, err
}

// get returns nil if the API server says that there is no such object.
func get[T client.Object](ctx context.Context, live client.Reader, name string, into T) (T, error) {
	var none T
	switch err := live.Get(ctx, types.NamespacedName{Name: name}, into); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}

// held is how often the machine was read off since the proof, and which object says so.
func held(f facts) (n int32, by types.UID) {
	switch {
	case f.maintenance != nil && f.maintenance.Status.Power != nil:
		return f.maintenance.Status.Power.Held, f.maintenance.UID
	case f.action != nil && f.action.Status.Power != nil:
		return f.action.Status.Power.Held, f.action.UID
	default:
		return 0, ""
	}
}

// sight remembers how often the machine of a node was read off by when that was asked.
func (r *Reconciler) sight(f facts, node string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]sighting{}
	}
	now, by := held(f)
	s := r.seen[node]
	if last := len(s.readings) - 1; s.by != by || last >= 0 && now < s.readings[last].held { // it counts anew
		s = sighting{by: by}
	}
	if last := len(s.readings) - 1; last >= 0 && s.readings[last].held == now {
		s.readings[last].at = asked
	} else {
		s.readings = append(s.readings[max(0, len(s.readings)-keptReadings):], reading{now, asked})
	}
	r.seen[node] = s
}

// off returns how long ago the machine was read off at the earliest; negative: nobody knows.
func (r *Reconciler) off(f facts) time.Duration {
	if f.node == nil {
		return -1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n, by := held(f)
	s := r.seen[f.node.Name]
	at, known := s.readings.off(n)
	if by == "" || s.by != by || !known {
		return -1
	}
	return r.Steady().Sub(at)
}

func (r *Reconciler) forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, node)
	delete(r.told, node)
}

// keep looks after a node with our mark until taint and mark are gone.
func (r *Reconciler) keep(ctx context.Context, name string) (time.Duration, error) {
	node, err := get(ctx, r.Live, name, &corev1.Node{})
	if node == nil || err != nil || !marked(node) {
		return 0, err // its event comes
	}
	mark, _ := v1alpha1.OutOfServiceMarkOf(node)
	var left, staying []Left
	if !mark.Moved || node.Status.NodeInfo.BootID != mark.BootID { // else nothing changes until it boots
		if left, staying, err = r.remaining(ctx, name); err != nil {
			return 0, err
		}
	}
	lasts, err := r.lasting(ctx, node, mark)
	if err != nil {
		return 0, err
	}
	do, why := after(node, left, lasts)
	ctrl.LoggerFrom(ctx).V(1).Info("Node is out of service", "do", do, "why", why, "left", len(left))
	switch do {
	case remove:
		if err := r.patch(ctx, name, removePatch(node)); err != nil {
			return 0, fmt.Errorf("taking the taint out-of-service of node %s away: %w", name, err)
		}
		r.tell(name, corev1.EventTypeNormal, eventRemoved, "the taint out-of-service is taken away: "+why)
		r.forget(name)
		return 0, nil
	case unmark:
		if err := r.patch(ctx, name, unmarkPatch(node)); err != nil {
			return 0, fmt.Errorf("taking the mark of the taint out-of-service of node %s away: %w", name, err)
		}
		r.forget(name)
		return 0, nil
	case tell:
		if err := r.patch(ctx, name, tellPatch(node)); err != nil {
			return 0, fmt.Errorf("telling that pods and volumes of node %s are freed: %w", name, err)
		}
		r.tell(name, corev1.EventTypeNormal, eventFreed, why+list(staying))
		return slow, nil
	case leave:
		r.tell(name, corev1.EventTypeWarning, eventLeft, "the taint out-of-service stays: "+why)
		return slow, nil
	default:
		if node.Status.NodeInfo.BootID != mark.BootID && len(left) > 0 {
			r.tell(name, corev1.EventTypeWarning, eventLeft, "the taint out-of-service stays: "+why+list(left)+list(staying))
		}
		if mark.Moved || node.Status.NodeInfo.BootID != mark.BootID {
			return slow, nil
		}
		return poll, nil
	}
}

// lasting returns the name of the maintenance for which the machine is off, as long as it has not ended.
func (r *Reconciler) lasting(ctx context.Context, node *corev1.Node, mark v1alpha1.OutOfServiceMark) (string, error) {
	name, is := mark.Maintenance()
	if !is {
		return "", nil
	}
	m, err := get(ctx, r.Live, name, &v1alpha1.NodeMaintenance{})
	if err != nil {
		return "", err
	}
	return lasting(node, m), nil
}

// remaining returns what the taint has not freed yet, and what it can't.
func (r *Reconciler) remaining(ctx context.Context, node string) (left, staying []Left, err error) {
	pods, err := r.Pods(ctx, node)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	attachments, err := r.attachments(ctx)
	if err != nil {
		return nil, nil, err
	}
	return Remaining(node, pods, attachments), Staying(pods), nil
}

// attachments lists the VolumeAttachments, which can't be selected by their node, in pieces.
func (r *Reconciler) attachments(ctx context.Context) (all []storagev1.VolumeAttachment, err error) {
	var list storagev1.VolumeAttachmentList
	for {
		if err := r.Live.List(ctx, &list, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("listing the VolumeAttachments: %w", err)
		}
		all = append(all, list.Items...)
		if list.Continue == "" {
			return all, nil
		}
		list.Items = nil
	}
}

func (r *Reconciler) patch(ctx context.Context, node string, patch []operation) error {
	return optimistic.PatchNode(ctx, r.Client, node, patch)
}

// Reasons of events.
const (
	eventSet      = "OutOfService"
	eventNotFreed = "PodsAndVolumesNotFreed"
	eventFreed    = "PodsAndVolumesFreed"
	eventLeft     = "OutOfServiceStays"
	eventRemoved  = "BackInService"
)

// tell tells people something about the node, once.
func (r *Reconciler) tell(node, kind, reason, message string) {
	r.mu.Lock()
	if r.told == nil {
		r.told = map[string]string{}
	}
	again := r.told[node] == reason+message
	r.told[node] = reason + message
	r.mu.Unlock()
	if again {
		return
	}
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	r.Events.Eventf(about, nil, kind, reason, "OutOfService", "%s", cut.Head(message, 1024))
}

// list says what is left, for people.
func list(all []Left) string {
	const most = 5
	text := ""
	for i, l := range all {
		if i == most {
			return text + fmt.Sprintf("; and %d more", len(all)-most)
		}
		text += "; " + l.String()
	}
	return text
}
