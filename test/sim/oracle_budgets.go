package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// A write of a budget names the version that it was made from. So what it gives is judged
// strictly by the budget as it is there. What it knows of nodes and remediations comes from
// a view: of that counts only what every controller knows.

// given is a permit that a write has given, or has made one for a disruptive step.
type given struct {
	budget      *v1alpha1.RemediationBudget
	group, node string
	permit      v1alpha1.Permit
	// anew: the remediation did not hold it before; disruptive: not for a disruptive step.
	anew, disruptive bool
}

// budgetWritten looks at what a controller has made of a budget.
func (o *oracles) budgetWritten(old, updated *v1alpha1.RemediationBudget) {
	if o.everybodyKnows(later(o.regrouped, o.world.troubled)) { // and could count meanwhile
		o.countedAll(updated)
	}
	o.permitsReturned(old, updated)
	o.disruptiveUntilReturned(old, updated)
	o.laterVersionKept(old, updated)
	o.filedWhereTheNodeIs(old, updated)
	if old.Status.Nodes == nil && updated.Status.Nodes != nil {
		o.learned(updated)
	}
	for _, g := range permitsGiven(old, updated) {
		if old.Status.Nodes != nil { // else it learns whose actions are under way
			o.notWhilePaused(g)
		}
		o.countedBySpec(g)
		if g.anew {
			o.withinPermits(g)
		}
		if g.disruptive {
			o.withinUnavailable(g)
			o.enoughHealthy(g)
		}
	}
}

// permitsGiven returns what of the permits is new.
func permitsGiven(old, updated *v1alpha1.RemediationBudget) (all []given) {
	for _, group := range sortedKeys(updated.Status.Groups) {
		permits := updated.Status.Groups[group].Permits
		for _, node := range sortedKeys(permits) {
			before, held := permitOf(old, node)
			held = held && before.Remediation == permits[node].Remediation
			disruptive := permits[node].Disruptive && (!held || !before.Disruptive)
			if !held || disruptive {
				all = append(all, given{updated, group, node, permits[node], !held, disruptive})
			}
		}
	}
	return all
}

// No surprise: nobody gets a permit of a budget that is paused.
func (o *oracles) notWhilePaused(g given) {
	if g.budget.Spec.Paused {
		o.world.broken("No surprise: a paused budget gives no permit", "budget %s gives %s the permit for node %s",
			g.budget.Name, g.permit.Remediation, g.node)
	}
}

// I1: after an edit of a budget nobody gets a permit before its nodes are counted anew.
func (o *oracles) countedBySpec(g given) {
	if g.budget.Status.ObservedGeneration != g.budget.Generation {
		o.world.broken("I1: permits are given by the limits as they are now", "budget %s gives %s the permit for node %s, by its limits of generation %d, and is of %d",
			g.budget.Name, g.permit.Remediation, g.node, g.budget.Status.ObservedGeneration, g.budget.Generation)
	}
}

// I1: maxConcurrent is never exceeded by a permit that is given. Nodes that have come to the
// group with a permit of another one count.
func (o *oracles) withinPermits(g given) {
	members := o.members(g.budget, g.group)
	nodes := len(members)
	if g.budget.Spec.MaxConcurrent == nil || !o.everybodyKnows(o.regrouped) {
		return
	}
	filed := g.budget.Status.Groups[g.group].Permits
	held, allowed := len(filed), concurrentlyAllowed(*g.budget.Spec.MaxConcurrent, nodes)
	for _, n := range members {
		_, here := filed[n.Name]
		if _, anywhere := permitOf(g.budget, n.Name); anywhere && !here {
			held++
		}
	}
	if held > allowed {
		o.world.broken("I1: maxConcurrent is never exceeded", "budget %s, group %s: %d permits with that for node %s, for %d nodes, %d may be",
			g.budget.Name, g.group, held, g.node, nodes, allowed)
	}
}

// I1: a permit for a later version of its remediation is not made one for an earlier version,
// which may be released although the later one is about to be used.
func (o *oracles) laterVersionKept(old, updated *v1alpha1.RemediationBudget) {
	for _, group := range sortedKeys(old.Status.Groups) {
		permits := old.Status.Groups[group].Permits
		for _, node := range sortedKeys(permits) {
			before := permits[node]
			after, held := permitOf(updated, node)
			if !held || after.Remediation != before.Remediation || before.Version == "" {
				continue
			}
			if c, err := resourceversion.CompareResourceVersion(after.Version, before.Version); err != nil || c < 0 {
				o.world.broken("I1: a permit for a later version is not made one for an earlier", "budget %s: that of %s for node %s, of version %s, is of %s",
					updated.Name, after.Remediation, node, before.Version, after.Version)
			}
		}
	}
}

// I1: a permit that has come to the group in which its node is does not go back to a former one:
// who has filed it knew more of the node than who moves it.
func (o *oracles) filedWhereTheNodeIs(old, updated *v1alpha1.RemediationBudget) {
	for _, node := range stored[*corev1.Node](o) {
		key := updated.Name + "/" + node.Name
		before, was := filedIn(old, node.Name)
		after, is := filedIn(updated, node.Name)
		switch at := groupOf(updated, node); {
		case is && after == at && (!was || before != at):
			o.filed[key] = time.Now()
		case is && was && before == at && after != at && updated.Generation == old.Generation && o.labelled[node.Name].Before(o.filed[key]):
			o.world.broken("I1: a permit stays in the group in which its node is", "budget %s: that for node %s goes from group %s, where the node is, to %s",
				updated.Name, node.Name, before, after)
		}
	}
}

// filedIn returns the group that has the permit for a node.
func filedIn(b *v1alpha1.RemediationBudget, node string) (group string, is bool) {
	for group, g := range b.Status.Groups {
		if _, is := g.Permits[node]; is {
			return group, true
		}
	}
	return "", false
}

// I1: a permit for a disruptive step is one until it is returned: the node may be out
// although not everybody knows.
func (o *oracles) disruptiveUntilReturned(old, updated *v1alpha1.RemediationBudget) {
	for _, group := range sortedKeys(old.Status.Groups) {
		permits := old.Status.Groups[group].Permits
		for _, node := range sortedKeys(permits) {
			after, held := permitOf(updated, node)
			if held && after.Remediation == permits[node].Remediation && permits[node].Disruptive && !after.Disruptive {
				o.world.broken("I1: a permit for a disruptive step is one until it is returned", "budget %s: that of %s for node %s",
					updated.Name, after.Remediation, node)
			}
		}
	}
}

// I1: maxUnavailable is never exceeded by our own steps: of the nodes of a group no more
// have a permit for a disruptive step, or are still out since they had one.
func (o *oracles) withinUnavailable(g given) {
	if g.budget.Spec.MaxUnavailable == nil || !o.everybodyKnows(o.regrouped) {
		return
	}
	permits := g.budget.Status.Groups[g.group].Permits
	members := o.members(g.budget, g.group)
	out := 0
	for _, n := range members {
		if permits[n.Name].Disruptive || o.out[n.Name][g.budget.UID] {
			out++
		}
	}
	if limit := unavailableAllowed(*g.budget.Spec.MaxUnavailable, len(members)); out > limit {
		o.world.broken("I1: maxUnavailable is never exceeded by our own steps", "budget %s, group %s: node %s may be taken out, too, which makes %d of %d, %d may be",
			g.budget.Name, g.group, g.node, out, len(members), limit)
	}
}

// tookOut remembers under which budgets' permits for a disruptive step a node was taken
// out of service, as long as it is.
func (o *oracles) tookOut(by string, old, updated *corev1.Node) {
	if !updated.Spec.Unschedulable {
		delete(o.out, updated.Name)
		return
	}
	m := find[*v1alpha1.NodeMaintenance](o, updated.Annotations[v1alpha1.CordonedAnnotation])
	if old.Spec.Unschedulable || by != "controller" || m == nil || m.Spec.Remediation == nil {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if permit, held := permitOf(b, updated.Name); held && permit.Disruptive && permit.Remediation == m.Spec.Remediation.Name {
			if o.out[updated.Name] == nil {
				o.out[updated.Name] = map[budgetUID]bool{}
			}
			o.out[updated.Name][b.UID] = true
		}
	}
}

// No surprise: no node is taken out unless minHealthy nodes of its group are healthy, and
// were for stormCooldown.
func (o *oracles) enoughHealthy(g given) {
	if g.budget.Spec.MinHealthy == nil || !o.everybodyKnows(o.regrouped) {
		return
	}
	if healthy, required := o.healthy(g.budget, g.group); healthy < required {
		o.world.broken("No surprise: in a storm no node is taken out", "budget %s, group %s: node %s may be taken out, and %d nodes are healthy, %d have to be",
			g.budget.Name, g.group, g.node, healthy, required)
	}
	const slack = 3 * time.Second // of clocks that are corrected
	over := o.stormy[stormOf(g.budget, g.group)].Add(g.budget.Spec.StormCooldown.Duration - slack)
	if time.Now().Before(over) {
		o.world.broken("No surprise: in a storm no node is taken out", "budget %s, group %s: node %s may be taken out, %s too early after a storm",
			g.budget.Name, g.group, g.node, time.Until(over))
	}
}

// notInStorm: that a node is not Ready makes it no better to drain it, or to take it out of
// service, in a storm.
func (o *oracles) notInStorm(node *corev1.Node) {
	if !o.everybodyKnows(o.world.people.limited) {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if b.Name != v1alpha1.ClusterPauseBudget && selects(b, node) {
			o.enoughHealthy(given{budget: b, group: groupOf(b, node), node: node.Name})
		}
	}
}

// healthy counts the nodes of a group that are available and have no open remediation, as
// far as everybody knows that the others have not been for a while; and how many of them
// minHealthy requires.
func (o *oracles) healthy(b *v1alpha1.RemediationBudget, group string) (healthy, required int) {
	members := o.members(b, group)
	for _, n := range members {
		if !o.knownUnwell(n) {
			healthy++
		}
	}
	return healthy, healthyRequired(*b.Spec.MinHealthy, len(members))
}

// storm is one of a group of a budget as somebody has last edited it.
type storm struct {
	budget     budgetUID
	generation int64
	group      string
}

func stormOf(b *v1alpha1.RemediationBudget, group string) storm {
	return storm{b.UID, b.Generation, group}
}

// storms remembers when there last was one, which every controller has had to notice, and
// could write down: a budget knows nothing of one that has passed while all were cut off.
func (o *oracles) storms() {
	if !o.everybodyKnows(later(o.regrouped, o.world.troubled)) || time.Since(o.world.skewed) < quietFor {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if b.Spec.MinHealthy == nil || b.Status.ObservedGeneration != b.Generation {
			continue
		}
		for _, group := range sortedKeys(b.Status.Groups) {
			if healthy, required := o.healthy(b, group); healthy < required {
				o.stormy[stormOf(b, group)] = time.Now()
			}
		}
	}
}

// I1: a budget that somebody has created again gives permits to those whose action is
// under way, as many as there may be, before anybody else gets one: the API server is asked.
func (o *oracles) learned(b *v1alpha1.RemediationBudget) {
	if b.Spec.MaxConcurrent == nil || !o.everybodyKnows(o.regrouped) {
		return
	}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		node := find[*corev1.Node](o, r.Spec.NodeName)
		if since, acts := o.acting[r.Name]; !acts || time.Since(since) < o.onItsWay() || node == nil || node.UID != r.Spec.NodeUID || !chosen(b.Spec.NodeSelector, node) {
			continue
		}
		group := groupOf(b, node)
		_, held := permitOf(b, node.Name)
		permits, allowed := len(b.Status.Groups[group].Permits), concurrentlyAllowed(*b.Spec.MaxConcurrent, len(o.members(b, group)))
		if !held && permits < allowed {
			o.world.broken("I1: a budget that is created again knows whose actions are under way", "budget %s has no permit for %s, and gave %d of %d",
				b.Name, r.Name, permits, allowed)
		}
	}
}

// members are the nodes of a group that a budget selects.
func (o *oracles) members(b *v1alpha1.RemediationBudget, group string) (members []*corev1.Node) {
	for _, n := range stored[*corev1.Node](o) {
		if chosen(b.Spec.NodeSelector, n) && groupOf(b, n) == group {
			members = append(members, n)
		}
	}
	return members
}

// selects reports whether a budget limits what is done to the node. The pause of the cluster
// limits nothing: it holds everything.
func selects(b *v1alpha1.RemediationBudget, node *corev1.Node) bool {
	return b.Name != v1alpha1.ClusterPauseBudget && chosen(b.Spec.NodeSelector, node)
}

// permitOf returns the permit of a budget for the node, whatever its group.
func permitOf(b *v1alpha1.RemediationBudget, node string) (permit v1alpha1.Permit, held bool) {
	for _, group := range b.Status.Groups {
		if permit, held = group.Permits[node]; held {
			return permit, true
		}
	}
	return v1alpha1.Permit{}, false
}

// holds reports whether a remediation has the permit of a budget for the node.
func holds(b *v1alpha1.RemediationBudget, node, remediation string) bool {
	permit, held := permitOf(b, node)
	return held && permit.Remediation == remediation
}

func groupOf(b *v1alpha1.RemediationBudget, n *corev1.Node) string {
	return cmp.Or(n.Labels[b.Spec.GroupBy], v1alpha1.UngroupedNodes)
}

// concurrentlyAllowed is how many of the nodes maxConcurrent lets be acted on. Of a
// percentage it is at least one.
func concurrentlyAllowed(limit intstr.IntOrString, nodes int) int { return allowed(limit, nodes, 0) }

// unavailableAllowed is how many of the nodes maxUnavailable lets be out. Of a percentage
// it is at least one where there are others.
func unavailableAllowed(limit intstr.IntOrString, nodes int) int { return allowed(limit, nodes, 2) }

// allowed is a limit as a number of nodes. A percentage is rounded down, but to no less than
// one from so many nodes on, unless it is 0%.
func allowed(limit intstr.IntOrString, nodes, oneFrom int) int {
	percent, isPercentage := percentage(limit)
	if !isPercentage {
		return limit.IntValue()
	}
	if percent > 0 && nodes >= oneFrom {
		return max(1, nodes*percent/100)
	}
	return nodes * percent / 100
}

// healthyRequired is how many of the nodes minHealthy wants to be healthy. A percentage
// spares one node where there are others, unless it is all of them.
func healthyRequired(limit intstr.IntOrString, nodes int) int {
	percent, isPercentage := percentage(limit)
	if !isPercentage {
		return limit.IntValue()
	}
	required := (nodes*percent + 99) / 100
	if percent < 100 && nodes > 1 {
		required = min(nodes-1, required)
	}
	return required
}

func percentage(limit intstr.IntOrString) (percent int, isPercentage bool) {
	text, isPercentage := strings.CutSuffix(limit.StrVal, "%")
	if !isPercentage {
		return 0, false
	}
	percent, err := strconv.Atoi(text)
	return percent, err == nil
}

// I1: an available node is taken out only under permits for a disruptive step. That it is
// out already is asked the API server.
func (o *oracles) takenOutAsDisruptive(old, updated *v1alpha1.Remediation) {
	node := find[*corev1.Node](o, updated.Spec.NodeName)
	if updated.Status.Maintenance == "" || updated.Status.Maintenance == old.Status.Maintenance || node == nil || !available(node) {
		return
	}
	if time.Since(o.foundOut[node.Name]) < o.onItsWay() || !o.everybodyKnows(o.world.people.limited) {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		permit, held := permitOf(b, node.Name)
		if selects(b, node) && held && permit.Remediation == updated.Name && !permit.Disruptive {
			o.world.broken("I1: a node is taken out only under a permit for a disruptive step", "%s takes out node %s, and its permit of budget %s is for a gentle one",
				updated.Name, node.Name, b.Name)
		}
	}
}

// I1: an available node is cordoned only under the permits of its remediation for a
// disruptive step, which may not have been returned meanwhile. One that a person has put
// back is cordoned again without.
func (o *oracles) cordonedUnderPermit(old, updated *corev1.Node) {
	m := find[*v1alpha1.NodeMaintenance](o, updated.Annotations[v1alpha1.CordonedAnnotation])
	if !available(old) || !updated.Spec.Unschedulable || m == nil || m.Spec.Remediation == nil || !o.cordoned[m.UID].IsZero() || !o.everybodyKnows(o.world.people.limited) {
		return
	}
	r := find[*v1alpha1.Remediation](o, m.Spec.Remediation.Name)
	named := r != nil && r.UID == m.Spec.Remediation.UID && !r.Ended() && r.Status.Maintenance == m.Name && m.DeletionTimestamp == nil
	if !named || !o.returned[updated.Name].Before(m.CreationTimestamp.Time) { // in the same moment, too
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		permit, held := permitOf(b, updated.Name)
		if selects(b, updated) && (!held || permit.Remediation != r.Name || !permit.Disruptive) {
			o.world.broken("I1: a node is cordoned only under permits", "node %s for %s, without the permit of budget %s to take it out", updated.Name, r.Name, b.Name)
		}
	}
}

// seen remembers when a controller last saw that a budget is gone.
func (o *oracles) seen(step apiserver.Step) {
	if b, is := step.Old.(*v1alpha1.RemediationBudget); is && step.New == nil {
		o.seenGone[b.Name] = time.Now()
	}
}

// takenForEarlier reports whether every controller takes a budget for an earlier one of the
// name, which selects the node as well: then it has to ask that for a permit. One that has seen
// that an earlier one is gone may have decided before it saw the next.
func (o *oracles) takenForEarlier(b *v1alpha1.RemediationBudget, node *corev1.Node) bool {
	if time.Since(o.seenGone[b.Name]) < o.onItsWay() {
		return false
	}
	leaders := o.world.leaders()
	for _, p := range leaders {
		if !slices.ContainsFunc(apiserver.All[*v1alpha1.RemediationBudget](p.view), func(seen *v1alpha1.RemediationBudget) bool {
			return seen.Name == b.Name && seen.UID != b.UID && chosen(seen.Spec.NodeSelector, node)
		}) {
			return false
		}
	}
	return len(leaders) > 0
}

// asked remembers what a controller that asks for a node learns.
func (o *oracles) asked(name string) {
	if node := find[*corev1.Node](o, name); node != nil && !available(node) {
		o.foundOut[name] = time.Now()
	}
}

// I1: an action is created only under the permit of every budget that selects its node,
// unless it is created as one that has expired.
func (o *oracles) createdUnderPermit(a *v1alpha1.NodeAction) {
	node := find[*corev1.Node](o, a.Spec.NodeName)
	limited := o.world.people.limited
	if _, givenUp := o.forgotten[a.Name]; givenUp {
		return // a request that was on its way, for what no runner begins
	}
	if node == nil || a.Spec.ExpiresAt.Before(&a.CreationTimestamp) || time.Since(limited) < o.onItsWay() {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if !selects(b, node) || !o.everybodyKnows(limited) && !o.takenForEarlier(b, node) {
			continue
		}
		if !holds(b, node.Name, a.Spec.Remediation) {
			o.world.broken("I1: an action is created only under permits", "%s for node %s, without the permit of budget %s", a.Name, node.Name, b.Name)
		}
	}
}
