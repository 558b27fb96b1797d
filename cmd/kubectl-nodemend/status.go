package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (t *tool) statusCommand() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "The fleet at a glance",
		Long: `Show how many nodes are in which state, the budgets with their permits and storms, what
is paused, what is under way, and whether detector, runner and controller are there.

A node counts once, in the first of the states that is true of it.`,
		Example: `  kubectl nodemend status
  kubectl nodemend status -o wide    # all nodes that are not healthy, by name
  kubectl nodemend status -o json | jq '.nodes'`,
		Args: cobra.NoArgs,
	}
	form.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, _ []string) error {
		s, open, err := t.status(ctx, c)
		if err != nil {
			return err
		}
		return t.print(form, s, func() string { return t.statusText(s, open, form.wide()) })
	})
	return cmd
}

// fleetStatus is the answer of the command.
type fleetStatus struct {
	Nodes        []nodesInState `json:"nodes"`
	Budgets      []budgetStatus `json:"budgets"`
	Paused       []string       `json:"paused,omitempty"`
	Policies     int            `json:"policies"`
	Enforced     int            `json:"policiesEnforced"`
	NotReady     []string       `json:"policiesNotReady,omitempty"`
	Remediations []openOne      `json:"remediations"`
	Agents       []agentStatus  `json:"agents"`
}

type nodesInState struct {
	State string   `json:"state"`
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

type budgetStatus struct {
	Name    string       `json:"name"`
	Group   string       `json:"group"`
	Nodes   int32        `json:"nodes"`
	Healthy int32        `json:"healthy"`
	Permits int          `json:"permits"`
	Limit   string       `json:"limit"`
	Storm   *metav1.Time `json:"stormSince,omitempty"`
}

type openOne struct {
	Name      string `json:"name"`
	Node      string `json:"node"`
	Policy    string `json:"policy"`
	State     string `json:"state"`
	BlockedBy string `json:"blockedBy,omitempty"`
	Message   string `json:"message,omitempty"`
}

// States of nodes, in the order in which they are asked.
const (
	stateMaintenance = "in maintenance"
	stateExhausted   = "exhausted"
	stateRepaired    = "being repaired"
	stateBlocked     = "repair is blocked"
	stateNotReady    = "not Ready"
	stateCordoned    = "cordoned by others"
	stateExcluded    = "excluded"
	stateHealthy     = "healthy"
)

func nodeStates() []string {
	return []string{stateHealthy, stateRepaired, stateBlocked, stateExhausted, stateMaintenance, stateNotReady, stateCordoned, stateExcluded}
}

// status reads and counts.
func (t *tool) status(ctx context.Context, c client.Client) (*fleetStatus, []v1alpha1.Remediation, error) {
	var nodes corev1.NodeList
	var budgets v1alpha1.RemediationBudgetList
	var policies v1alpha1.RemedyPolicyList
	var maintenances v1alpha1.NodeMaintenanceList
	for _, list := range []client.ObjectList{&nodes, &budgets, &policies, &maintenances} {
		if err := c.List(ctx, list); err != nil {
			return nil, nil, err
		}
	}
	all, err := remediationsOf(ctx, c, "")
	if err != nil {
		return nil, nil, err
	}
	openOnes := slices.DeleteFunc(all, func(r v1alpha1.Remediation) bool { return r.Ended() })
	slices.SortFunc(openOnes, func(a, b v1alpha1.Remediation) int {
		return cmp.Or(strings.Compare(a.Spec.NodeName, b.Spec.NodeName), strings.Compare(a.Name, b.Name))
	})
	s := &fleetStatus{
		Nodes: countNodes(nodes.Items, openOnes, maintenances.Items), Budgets: []budgetStatus{},
		Policies: len(policies.Items), Remediations: []openOne{}, Agents: agents(ctx, c, nodes.Items),
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		if p.Spec.Paused {
			s.Paused = append(s.Paused, "policy "+p.Name+detail("", p.Spec.PauseReason))
		} else if p.Spec.Mode == v1alpha1.ModeEnforce {
			s.Enforced++
		}
		if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.RemedyPolicyReady); ready != nil && ready.Status == metav1.ConditionFalse {
			s.NotReady = append(s.NotReady, "policy "+p.Name+detail(ready.Reason, ready.Message))
		}
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		if b.Name == v1alpha1.ClusterPauseBudget && b.Spec.Paused {
			s.Paused, s.Enforced = append(s.Paused, "the cluster"+detail("", b.Spec.PauseReason)), 0
			continue // it has no other use
		}
		if b.Spec.Paused {
			s.Paused = append(s.Paused, "budget "+b.Name+detail("", b.Spec.PauseReason))
		}
		s.Budgets = append(s.Budgets, groupsOf(b)...)
	}
	for i := range openOnes {
		r := &openOnes[i]
		s.Remediations = append(s.Remediations, openOne{r.Name, r.Spec.NodeName, r.Spec.Policy.Name, r.State(), r.BlockedBy(), message(r)})
	}
	return s, openOnes, nil
}

// groupsOf has one row for each group of a budget.
func groupsOf(b *v1alpha1.RemediationBudget) []budgetStatus {
	concurrent := b.Spec.Concurrent()
	if len(b.Status.Groups) == 0 {
		return []budgetStatus{{Name: b.Name, Group: "-", Limit: concurrent.String()}}
	}
	var rows []budgetStatus
	for _, name := range slices.Sorted(maps.Keys(b.Status.Groups)) {
		g := b.Status.Groups[name]
		row := budgetStatus{Name: b.Name, Group: name, Nodes: g.Nodes, Healthy: g.Healthy, Permits: len(g.Permits), Limit: concurrent.String()}
		if g.Limit != nil {
			row.Limit = fmt.Sprint(*g.Limit)
		}
		if g.Storm != nil {
			row.Storm = &g.Storm.Since
		}
		rows = append(rows, row)
	}
	return rows
}

// countNodes puts each node into one state.
func countNodes(nodes []corev1.Node, openOnes []v1alpha1.Remediation, maintenances []v1alpha1.NodeMaintenance) []nodesInState {
	byNode := map[string][]*v1alpha1.Remediation{}
	for i := range openOnes {
		byNode[openOnes[i].Spec.NodeName] = append(byNode[openOnes[i].Spec.NodeName], &openOnes[i])
	}
	out := map[string]bool{}
	for i := range maintenances {
		out[maintenances[i].Spec.NodeName] = true
	}
	names := map[string][]string{}
	for i := range nodes {
		n := &nodes[i]
		state := stateOf(n, byNode[n.Name], out[n.Name])
		names[state] = append(names[state], n.Name)
	}
	var rows []nodesInState
	for _, state := range nodeStates() {
		if of := names[state]; len(of) > 0 || state == stateHealthy {
			row := nodesInState{State: state, Count: len(of), Names: of}
			if state == stateHealthy {
				row.Names = nil // nobody looks for those
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func stateOf(n *corev1.Node, openOnes []*v1alpha1.Remediation, out bool) string {
	is := func(wanted func(*v1alpha1.Remediation) bool) bool { return slices.ContainsFunc(openOnes, wanted) }
	switch {
	case out:
		return stateMaintenance
	case is(func(r *v1alpha1.Remediation) bool { return r.State() == v1alpha1.ReasonExhausted }):
		return stateExhausted
	case is(func(r *v1alpha1.Remediation) bool { return r.BlockedBy() == "" }):
		return stateRepaired
	case len(openOnes) > 0:
		return stateBlocked
	case nodeState(n)[0] != "Ready":
		return stateNotReady
	case n.Spec.Unschedulable:
		return stateCordoned
	case v1alpha1.Excluded(n):
		return stateExcluded
	default:
		return stateHealthy
	}
}

// namesShown is how many names are printed without -o wide.
const namesShown = 3

// some are the first names.
func some(names []string, all bool) string {
	if all || len(names) <= namesShown {
		return dash(strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namesShown], ", "), len(names)-namesShown)
}

func (t *tool) statusText(s *fleetStatus, openOnes []v1alpha1.Remediation, wide bool) string {
	var text strings.Builder
	var rows [][]string
	for _, n := range s.Nodes {
		rows = append(rows, []string{n.State, fmt.Sprint(n.Count), some(n.Names, wide)})
	}
	text.WriteString(table([]string{"NODES", "COUNT", "NAMES"}, rows))

	rows = nil
	for _, b := range s.Budgets {
		storm := "-"
		if b.Storm != nil {
			storm = "for " + t.ago(b.Storm.Time)
		}
		rows = append(rows, []string{b.Name, b.Group, fmt.Sprint(b.Nodes), fmt.Sprint(b.Healthy), fmt.Sprintf("%d/%s", b.Permits, b.Limit), storm})
	}
	if len(rows) == 0 {
		text.WriteString("\nNo budget: nothing is done on any node until a RemediationBudget selects it.\n")
	} else {
		text.WriteString("\n" + table([]string{"BUDGET", "GROUP", "NODES", "HEALTHY", "PERMITS", "STORM"}, rows))
	}
	for _, paused := range s.Paused {
		fmt.Fprintf(&text, "PAUSED: %s\n", paused)
	}
	fmt.Fprintf(&text, "\nPolicies: %d, of which %d act (mode Enforce, not paused).\n", s.Policies, s.Enforced)
	for _, policy := range s.NotReady {
		fmt.Fprintf(&text, "CANNOT ACT: %s\n", policy)
	}

	if len(openOnes) == 0 {
		text.WriteString("\nNothing is under way.\n")
	} else {
		text.WriteString("\n" + t.remediationTable(openOnes, wide))
	}

	rows = nil
	for _, a := range s.Agents {
		if a.Problem != "" {
			rows = append(rows, []string{a.Role, "?", "?", "?", a.Problem})
			continue
		}
		rows = append(rows, []string{a.Role, fmt.Sprint(a.Wanted), fmt.Sprint(a.Ready), fmt.Sprint(a.Old), some(a.Missing, wide)})
	}
	text.WriteString("\n" + table([]string{"ROLE", "WANTED", "READY", "OLD", "NOT READY ON"}, rows))
	return text.String()
}
