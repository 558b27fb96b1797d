package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// status returns that of one of the node's conditions, "" if there is none.
func (n *node) status(condition string) corev1.ConditionStatus {
	if obj := n.object(); obj != nil {
		if c := v1alpha1.FindNodeCondition(obj, condition); c != nil {
			return c.Status
		}
	}
	return ""
}

// service returns how the node is.
func (n *node) service() string { return serviceOf(n.object()) }

// remediations returns those of the node, by their names.
func (s *stage) remediations(n *node) (all []*v1alpha1.Remediation) {
	for _, r := range stored[*v1alpha1.Remediation](s.oracles) {
		if r.Spec.NodeName == n.name {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Remediation) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// only returns the node's only remediation, nil while there is none.
func (s *stage) only(n *node) *v1alpha1.Remediation {
	all := s.remediations(n)
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	s.miss("node %s has %d remediations, %s and %s", n.name, len(all), all[0].Name, all[1].Name)
	return nil
}

// state returns "state" or "state/blocked by" of the node's only remediation.
func (s *stage) state(n *node) string {
	r := s.only(n)
	if r == nil {
		return ""
	}
	return stateOf(r)
}

func stateOf(r *v1alpha1.Remediation) string {
	return strings.TrimSuffix(r.State()+"/"+r.BlockedBy(), "/")
}

// open returns the state of the node's open remediation, "" if there is none.
func (s *stage) open(n *node) string {
	for _, r := range s.remediations(n) {
		if !r.Ended() {
			return stateOf(r)
		}
	}
	return ""
}

// names returns those of the node's remediations.
func (s *stage) names(n *node) []string {
	names := []string{}
	for _, r := range s.remediations(n) {
		names = append(names, r.Name)
	}
	return names
}

// countEnded counts the node's remediations that are over.
func (s *stage) countEnded(n *node) (count int) {
	for _, r := range s.remediations(n) {
		if r.Ended() {
			count++
		}
	}
	return count
}

// records returns the history of the node's only remediation, as step/attempt outcome,
// without what a runner did not start because it died.
func (s *stage) records(n *node) []string {
	got := []string{}
	if r := s.only(n); r != nil {
		for _, a := range r.Status.History {
			if a.Outcome == v1alpha1.ReasonNotStarted && s.died {
				continue
			}
			got = append(got, fmt.Sprintf("%d/%d %s", a.Step, a.Attempt, a.Outcome))
		}
	}
	return got
}

// actions returns those of the node, without what a runner did not start because it died.
func (s *stage) actions(n *node) (all []*v1alpha1.NodeAction) {
	for _, a := range stored[*v1alpha1.NodeAction](s.oracles) {
		notStarted := s.died && a.Finished() != nil && a.Finished().Reason == v1alpha1.ReasonNotStarted
		if a.Spec.NodeName == n.name && !notStarted {
			all = append(all, a)
		}
	}
	return all
}

// maintenances returns the names of those of the node.
func (s *stage) maintenances(n *node) []string {
	names := []string{}
	for _, m := range stored[*v1alpha1.NodeMaintenance](s.oracles) {
		if m.Spec.NodeName == n.name {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// drainOf returns the reason of the Drained condition of the node's only maintenance.
func (s *stage) drainOf(n *node) string {
	for _, m := range stored[*v1alpha1.NodeMaintenance](s.oracles) {
		if m.Spec.NodeName == n.name {
			if c := m.Condition(v1alpha1.MaintenanceDrained); c != nil {
				return c.Reason
			}
		}
	}
	return ""
}

// permits returns the nodes that hold a permit.
func (s *stage) permits() []string {
	nodes := []string{}
	for _, b := range stored[*v1alpha1.RemediationBudget](s.oracles) {
		for _, group := range b.Status.Groups {
			nodes = append(nodes, sortedKeys(group.Permits)...)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// storm reports whether the budget sees one.
func (s *stage) storm() bool {
	for _, b := range stored[*v1alpha1.RemediationBudget](s.oracles) {
		for _, group := range b.Status.Groups {
			if group.Storm != nil {
				return true
			}
		}
	}
	return false
}

// ran returns what the node's host has executed: a command, a unit, or "reboot".
func (n *node) ran() []string {
	names := []string{}
	for _, e := range n.executions {
		switch step := e.order.Step; {
		case step.Command != nil:
			names = append(names, strings.TrimPrefix(step.Command.Argv[0], "/bin/"))
		case step.RestartUnit != nil:
			names = append(names, step.RestartUnit.Name)
		default:
			names = append(names, e.remedy)
		}
	}
	return names
}

// comesTo waits for a state of the node's only remediation.
func (s *stage) comesTo(n *node, state string) {
	s.until("node "+n.name+" is "+state, func() bool { return s.state(n) == state })
}

// over reports whether nothing more will happen to the node by itself.
func (s *stage) over(n *node) bool {
	r := s.only(n)
	return r != nil && (r.Ended() || r.State() == v1alpha1.ReasonExhausted) && len(s.permits()) == 0
}

// ends waits until nothing more will happen to the node by itself.
func (s *stage) ends(n *node) { s.until("it is over", func() bool { return s.over(n) }) }

// parked waits until the node's remediation has taken it out for good.
func (s *stage) parked(n *node) {
	s.until("node "+n.name+" is parked", func() bool {
		return s.state(n) == v1alpha1.ReasonInMaintenance && len(s.permits()) == 0
	})
}

// back waits until the node's remediation is over, and the node in service.
func (s *stage) back(n *node) {
	s.until("node "+n.name+" is back", func() bool {
		r := s.only(n)
		return r != nil && r.Ended() && len(s.permits()) == 0 && len(s.maintenances(n)) == 0 && n.service() == inService
	})
}

// expectOut expects that the node's remediation has it parked.
func (s *stage) expectOut(n *node) {
	expect(s, "state", s.state(n), v1alpha1.ReasonInMaintenance)
	expect(s, "service", n.service(), outByUs)
	expect(s, "maintenances", len(s.maintenances(n)), 1)
	expect(s, "permits", s.permits(), []string{})
}

// expectOutOnce expects that the node was taken out once, and given back once.
func (s *stage) expectOutOnce(n *node) {
	expect(s, "service", s.service[n.name], []string{inService, outByUs, inService})
}

// expectHealed expects that the node has recovered by what was executed.
func (s *stage) expectHealed(n *node, ran ...string) {
	expect(s, "state", s.state(n), v1alpha1.ReasonRecovered)
	expect(s, "permits", s.permits(), []string{})
	expect(s, "executions", n.ran(), ran)
}

// excluded sets the label of the node that keeps it from new actions.
func (s *stage) excluded(n *node, to bool) {
	obj := n.object().DeepCopy()
	delete(obj.Labels, v1alpha1.ExcludeLabel)
	if to {
		obj.Labels[v1alpha1.ExcludeLabel] = "true"
	}
	s.update(obj)
}

// unschedulable does what kubectl cordon and kubectl uncordon do.
func (s *stage) unschedulable(n *node, to bool) {
	obj := n.object().DeepCopy()
	obj.Spec.Unschedulable = to
	s.people.cordoned[n.name] = to
	s.update(obj)
}

// note annotates the node's only remediation.
func (s *stage) note(n *node, key, value string) {
	r := s.only(n).DeepCopy()
	annotate(r, key, value)
	s.update(r)
}

// drop lets a person delete the remediation of this name.
func (s *stage) drop(name string) {
	s.remove(&v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// release lets a person delete a maintenance.
func (s *stage) release(name string) {
	s.remove(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// repair takes all faults away.
func (n *node) repair() {
	n.world.say("host "+n.name, "is repaired")
	clear(n.faults)
}
