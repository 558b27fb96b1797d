package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/test/apiserver"
)

// people are those who use the cluster, and what oracles have to know of their acts.
type people struct {
	world *world
	// cordoned are the nodes that a person has cordoned and nobody uncordoned since.
	cordoned map[string]bool
	// limited is when somebody last changed a budget, or what budgets select.
	limited time.Time
	// edited is when somebody last changed a policy.
	edited time.Time
	// meddled is when somebody last changed or deleted objects that only the controller
	// is to write.
	meddled time.Time
	// unburied is when somebody last deleted a tombstone.
	unburied time.Time
	// replaced are the nodes whose object was deleted.
	replaced map[string]bool
	// blinded are the actions that were deleted before any controller had seen that they
	// exist, or while a request to create them was still on its way, or after their remediation
	// was removed by force: they are taken for never created, or for what comes in their place. Admission lets nobody do that but
	// system:masters.
	blinded map[string]bool
	// forced are the remediations whose finalizer somebody has removed: nobody has ended
	// what they had under way.
	forced map[types.UID]bool
	// freed are the nodes that a person has set the taint out-of-service of.
	freed map[string]bool
	// words are those that machines are off, by the maintenance in which they were given.
	words map[string]*word
	// unsaid are the nodes of which a person has told Karpenter something, and has taken it back.
	unsaid  map[string]bool
	retries int
	created int
}

// peoplesActs are what people do.
func peoplesActs() []happening {
	return []happening{
		{"a policy is edited", 2, (*world).editPolicy},
		{"a policy is paused or resumed", 2, (*world).pausePolicy},
		{"a policy is deleted", 1, (*world).deletePolicy},
		{"a budget is edited", 2, (*world).editBudget},
		{"a budget is paused or resumed", 2, (*world).pauseBudget},
		{"a budget is deleted", 1, (*world).deleteBudget},
		{"the cluster is paused or resumed", 2, (*world).pauseCluster},
		{"a remediation is deleted", 2, (*world).deleteRemediation},
		{"a finalizer is removed", 1, (*world).removeFinalizer},
		{"a remediation is deleted by force", 1, (*world).forceRemediation},
		{"an action is deleted", 2, (*world).deleteAction},
		{"a maintenance is deleted", 2, (*world).deleteMaintenance},
		{"a person takes a node out", 2, (*world).startMaintenance},
		{"a node is cordoned or uncordoned", 3, (*world).cordon},
		{"a cordon of ours is taken over", 2, (*world).takeOverCordon},
		{"pods come to a node that a person uncordons", 2, (*world).fillUncordoned},
		{"a node is excluded or included", 2, (*world).exclude},
		{"an autoscaler is to remove a node", 1, (*world).leave},
		{"another healer has a node", 3, (*world).otherHealer},
		{"a person tells Karpenter whether to repair a node", 2, (*world).tellKarpenter},
		{"a person takes a node out that another healer has", 2, (*world).takeOutOfOthers},
		{"a node is relabelled", 2, (*world).relabel},
		{"a node is deleted and registered anew", 1, (*world).replaceNode},
		{"a step is approved", 3, (*world).approve},
		{"somebody starts over", 3, (*world).retry},
		{"a pod is deleted", 1, (*world).deletePod},
		{"another program's object is deleted", 2, (*world).deleteOfOthers},
		{"another program does nothing for a while", 2, (*world).otherDies},
		{"a driver does nothing for a while", 2, (*world).driverDies},
		{"what a driver asks for is deleted", 2, (*world).deleteRequest},
		{"a Node is deleted that another program has", 6, (*world).deleteNodeOfOthers},
	}
}

// anyObject chooses an object of a kind that is as wanted; false: there is none.
func anyObject[T client.Object](w *world, list client.ObjectList, items func() []T, wanted func(T) bool) (T, bool) {
	w.must(w.admin.List(w.ctx, list))
	var fit []T
	for _, item := range items() {
		if wanted == nil || wanted(item) {
			fit = append(fit, item)
		}
	}
	if len(fit) == 0 {
		var none T
		return none, false
	}
	return of(w.choices, fit...), true
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// update writes an object as a person does, whatever others do at that time.
func (w *world) update(obj client.Object) bool {
	w.say("people", "change %s", describe(obj))
	w.must(client.IgnoreNotFound(w.admin.Update(w.ctx, obj)))
	return true
}

func (w *world) remove(obj client.Object) bool {
	w.say("people", "delete %s", describe(obj))
	w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, obj)))
	return true
}

// later lets people undo what they did, as they mostly do.
func (w *world) later(undo func()) {
	w.after(w.while(), func() {
		if w.chaos {
			undo()
		}
	})
}

// comeToRest lets people give back what only they give back: their own maintenances, those
// that a remediation has left behind which somebody has deleted, and those that it leaves to
// them. Pods that veto end, and budgets have no windows any more.
func (p *people) comeToRest() {
	if powers := p.world.powers; powers != nil {
		powers.comeToRest()
	}
	for _, b := range apiserver.Stored[*v1alpha1.RemediationBudget](p.world.server) {
		if b.Spec.AllowedWindows != nil {
			always := b.DeepCopy()
			always.Spec.AllowedWindows = nil
			p.limited = time.Now()
			p.world.update(always)
		}
	}
	for _, pod := range apiserver.Stored[*corev1.Pod](p.world.server) {
		if pod.Labels[vetoLabel] != "" {
			p.world.remove(pod.DeepCopy())
		}
	}
	for _, m := range apiserver.Stored[*v1alpha1.NodeMaintenance](p.world.server) {
		owner := m.Spec.Remediation
		if owner != nil {
			r := apiserver.Peek[*v1alpha1.Remediation](p.world.server, client.ObjectKey{Name: owner.Name})
			if r != nil && r.UID == owner.UID && r.State() != v1alpha1.ReasonDeleted && r.BlockedBy() != remediation.ReasonReleaseRequired {
				continue
			}
		}
		p.world.remove(m.DeepCopy())
	}
}
