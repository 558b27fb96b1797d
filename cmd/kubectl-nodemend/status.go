package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

func (t *tool) statusCommand() *cobra.Command {
	var form output
	var watch bool
	var of nodeSet
	cmd := &cobra.Command{
		Use:   "status",
		Short: "The fleet at a glance",
		Long: `Show what needs you, with the commands for it; drains and what else is under way; what
waits for its turn; what policies in mode DryRun would do; then how many nodes are in
which state, the budgets with their permits and storms, how many nodes could be switched
off from outside, and whether detector, runner and controller are there. If no controller works, that is said first.

A node counts once, in the first of the states that is true of it. Lines are cut to 80
columns, and each part after 25 entries; -o wide shows all.`,
		Example: `  kubectl nodemend status
  kubectl nodemend status -w                 # again every 2 seconds
  kubectl nodemend status -l pool=workers    # of these nodes alone
  kubectl nodemend status -o wide            # all nodes that are not healthy, by name
  kubectl nodemend status -o json | jq '.needsYou'`,
		Args: cobra.NoArgs,
	}
	form.addTo(cmd)
	of.addTo(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until you stop it")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, _ []string) error {
		if watch && form.data() {
			return fmt.Errorf("-w shows text, not %s; see kubectl get -w", form)
		}
		show := func(ctx context.Context) (string, error) {
			s, err := t.status(ctx, c, &of)
			if err != nil {
				return "", err
			}
			return form.text(s, func() string { return t.statusText(s, form.wide()) })
		}
		if watch {
			return t.again(ctx, show)
		}
		text, err := show(ctx)
		if err != nil {
			return err
		}
		return t.write(form, text)
	})
	return cmd
}

// fleetStatus is the answer of the command.
type fleetStatus struct {
	Controller   *leaderStatus  `json:"controller,omitempty"`
	NeedsYou     []need         `json:"needsYou"`
	Drains       []drainStatus  `json:"drains"`
	Nodes        []nodesInState `json:"nodes"`
	Budgets      []budgetStatus `json:"budgets"`
	Paused       []string       `json:"paused,omitempty"`
	Policies     int            `json:"policies"`
	Enforced     int            `json:"policiesEnforced"`
	NotReady     []string       `json:"policiesNotReady,omitempty"`
	Remediations []openOne      `json:"remediations"`
	Agents       []agentStatus  `json:"agents"`
	Fences       *fenceStatus   `json:"fences,omitempty"`
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
	Name   string `json:"name"`
	Node   string `json:"node"`
	Policy string `json:"policy"`
	Part   part   `json:"part"`
	// Step is the number of the step and of all steps.
	Step  string `json:"step"`
	State string `json:"state"`
	// Since is when it got into that state, or what blocks it began to.
	Since     metav1.Time `json:"since"`
	BlockedBy string      `json:"blockedBy,omitempty"`
	Message   string      `json:"message,omitempty"`
	// Would is what a policy in mode DryRun would do.
	Would string `json:"would,omitempty"`
}

// openOneOf tells of a remediation, and whether its policy is in mode DryRun now.
func openOneOf(r *v1alpha1.Remediation, dryRun bool) openOne {
	o := openOne{
		Name: r.Name, Node: r.Spec.NodeName, Policy: r.Spec.Policy.Name, Part: partOf(r),
		Step:  fmt.Sprintf("%d/%d", max(r.Status.Step, 1), len(r.Spec.Steps)),
		State: r.State(), BlockedBy: r.BlockedBy(), Message: message(r), Since: conditionOf(r, v1alpha1.RemediationProgressing).LastTransitionTime,
	}
	if o.BlockedBy != "" {
		o.Since = conditionOf(r, v1alpha1.RemediationBlocked).LastTransitionTime
	}
	if dryRun && r.Untouched() {
		o.Part = partDryRun
	}
	if step := r.Step(r.Status.Step); o.Part == partDryRun && step != nil {
		o.Would = step.Describe()
	}
	return o
}

// States of nodes, in the order in which they are asked.
const (
	stateOutOfService = "pods and volumes freed"
	stateMaintenance  = "in maintenance"
	stateExhausted    = "exhausted"
	stateRepaired     = "being repaired"
	stateBlocked      = "repair is blocked"
	stateNotReady     = "not Ready"
	stateCordoned     = "cordoned by others"
	stateExcluded     = "excluded"
	stateHealthy      = "healthy"
)

func nodeStates() []string {
	return []string{stateHealthy, stateRepaired, stateBlocked, stateExhausted, stateOutOfService, stateMaintenance, stateNotReady, stateCordoned, stateExcluded}
}

// status reads and counts, of the nodes that are selected.
func (t *tool) status(ctx context.Context, c client.Client, of *nodeSet) (*fleetStatus, error) {
	var budgets v1alpha1.RemediationBudgetList
	var policies v1alpha1.RemedyPolicyList
	nodes, err := of.nodes(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, list := range []client.ObjectList{&budgets, &policies} {
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
	}
	maintenances, err := maintenancesOf(ctx, c, "")
	if err != nil {
		return nil, err
	}
	all, err := remediationsOf(ctx, c, "")
	if err != nil {
		return nil, err
	}
	selected := map[string]bool{}
	for i := range nodes {
		selected[nodes[i].Name] = true
	}
	other := func(name string) bool { return of.labels != "" && !selected[name] }
	maintenances = slices.DeleteFunc(maintenances, func(m v1alpha1.NodeMaintenance) bool { return other(m.Spec.NodeName) })
	openOnes := slices.DeleteFunc(all, func(r v1alpha1.Remediation) bool { return r.Ended() || other(r.Spec.NodeName) })
	slices.SortFunc(openOnes, func(a, b v1alpha1.Remediation) int {
		return cmp.Or(strings.Compare(a.Spec.NodeName, b.Spec.NodeName), strings.Compare(a.Name, b.Name))
	})
	roles, deployments := agents(ctx, c, nodes)
	s := &fleetStatus{
		Nodes: countNodes(nodes, openOnes, maintenances), Budgets: []budgetStatus{}, NeedsYou: []need{}, Drains: drains(maintenances),
		Policies: len(policies.Items), Remediations: []openOne{}, Agents: roles, Fences: t.fencesOf(nodes),
	}
	if s.Controller, err = t.leader(ctx, c, deployments); err != nil {
		return nil, err
	}
	dryRun := map[types.UID]bool{}
	for i := range policies.Items {
		p := &policies.Items[i]
		dryRun[p.UID] = p.Spec.Mode == v1alpha1.ModeDryRun
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
		if b.PausesCluster() {
			s.Paused, s.Enforced = append(s.Paused, "the cluster"+detail("", b.Spec.PauseReason)), 0
			continue // it has no other use
		}
		if b.Spec.Paused {
			s.Paused = append(s.Paused, "budget "+b.Name+detail("", b.Spec.PauseReason))
		}
		s.Budgets = append(s.Budgets, groupsOf(b)...)
	}
	for i := range openOnes {
		r := openOneOf(&openOnes[i], dryRun[openOnes[i].Spec.Policy.UID])
		s.Remediations = append(s.Remediations, r)
		if r.Part == partNeedsYou {
			s.NeedsYou = append(s.NeedsYou, t.needOf(&openOnes[i]))
		}
	}
	for i := range s.Drains {
		if d := &s.Drains[i]; d.overdue() {
			s.NeedsYou = append(s.NeedsYou, need{
				Node: d.Node, What: "its drain has taken too long", Why: fmt.Sprintf("%s left: %s", count(int(d.Left), "pod"), dash(d.WaitsFor)),
				Do: []string{"kubectl nodemend maintenance status " + d.Node},
			})
		}
	}
	for i := range nodes {
		s.NeedsYou = append(s.NeedsYou, t.staysOutOfService(&nodes[i])...)
	}
	slices.SortStableFunc(s.NeedsYou, func(a, b need) int { return strings.Compare(a.Node, b.Node) })
	return s, nil
}

// backTime is for how long a node that is back may have the taint out-of-service: what is left is
// looked at each half minute.
const backTime = 2 * time.Minute

// staysOutOfService is what a node needs that is Ready for a while, and has our taint out-of-service.
func (t *tool) staysOutOfService(n *corev1.Node) []need {
	_, marked := n.Annotations[v1alpha1.OutOfServiceAnnotation]
	ready := v1alpha1.FindNodeCondition(n, string(corev1.NodeReady))
	if !marked || ready == nil || ready.Status != corev1.ConditionTrue || t.clock.Since(ready.LastTransitionTime.Time) < backTime {
		return nil
	}
	return []need{{
		Node: n.Name, What: "it is back, and the taint out-of-service stays", Why: "no pod starts there that does not tolerate it",
		Do: []string{"kubectl nodemend why " + n.Name},
	}}
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
	_, marked := n.Annotations[v1alpha1.OutOfServiceAnnotation]
	switch {
	case marked || v1alpha1.IsOutOfService(n):
		return stateOutOfService
	case out:
		return stateMaintenance
	case is(func(r *v1alpha1.Remediation) bool {
		return r.State() == v1alpha1.ReasonExhausted || r.State() == v1alpha1.ReasonStopped
	}):
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

// statusText tells the answer to a person: what matters most comes first.
func (t *tool) statusText(s *fleetStatus, wide bool) string {
	var text strings.Builder
	text.WriteString(t.leaderText(s.Controller))
	for _, paused := range s.Paused {
		fmt.Fprintf(&text, "PAUSED: %s\n", paused)
	}
	for _, policy := range s.NotReady {
		fmt.Fprintf(&text, "CANNOT ACT: %s\n", policy)
	}
	if len(s.Paused)+len(s.NotReady) > 0 {
		text.WriteString("\n")
	}
	return t.folded(text.String()) + needsText(s.NeedsYou, wide) + t.openText(s, wide) + t.fleetText(s, wide)
}

// needsText is what waits for a person, with the commands for it.
func needsText(needs []need, wide bool) string {
	if len(needs) == 0 {
		return "Nothing needs you.\n\n"
	}
	needs, more := first(needs, wide)
	var text strings.Builder
	text.WriteString("NEEDS YOU\n")
	for _, n := range needs {
		text.WriteString(n.Node + "  " + oneLine(n.What) + "\n")
		if n.Why != "" {
			text.WriteString(fit("  "+oneLine(n.Why)+"\n", wide))
		}
		for _, command := range n.Do {
			text.WriteString("  " + command + "\n")
		}
	}
	return text.String() + more + "\n"
}

// entriesShown is how many entries a part of the status has without -o wide.
const entriesShown = 25

// first returns the entries that are shown, and the line that says how many more there are.
func first[T any](entries []T, wide bool) ([]T, string) {
	if wide || len(entries) <= entriesShown {
		return entries, ""
	}
	return entries[:entriesShown], fmt.Sprintf("and %d more: kubectl nodemend status -o wide\n", len(entries)-entriesShown)
}

// openText is what is under way, and what is not.
func (t *tool) openText(s *fleetStatus, wide bool) string {
	of := func(p part, columns func(*openOne) []string) (rows [][]string) {
		for i := range s.Remediations {
			r := &s.Remediations[i]
			if r.Part != p {
				continue
			}
			row := append([]string{r.Node, r.Policy}, columns(r)...)
			if wide {
				row = append(row, r.Name)
			}
			rows = append(rows, row)
		}
		return rows
	}
	var draining [][]string
	for i := range s.Drains {
		d := &s.Drains[i]
		draining = append(draining, []string{
			d.Node, d.State, fmt.Sprintf("%d%%", d.Percent), fmt.Sprintf("%d of %d", d.Left, d.Total), t.timeLeft(d), dash(d.OnTimeout), dash(d.WaitsFor),
		})
	}
	var text strings.Builder
	for _, section := range []struct {
		header []string
		rows   [][]string
		named  bool
	}{
		{[]string{"DRAINS", "STATE", "DONE", "LEFT", "TIMEOUT", "THEN", "WAITS FOR"}, draining, false},
		{[]string{"UNDER WAY", "POLICY", "STEP", "STATE", "FOR", "MESSAGE"}, of(partUnderWay, func(r *openOne) []string {
			return []string{r.Step, dash(r.State), t.ago(r.Since.Time), dash(r.Message)}
		}), true},
		{[]string{"WAITS", "POLICY", "BLOCKED BY", "FOR", "MESSAGE"}, of(partWaits, func(r *openOne) []string {
			return []string{r.BlockedBy, t.ago(r.Since.Time), dash(r.Message)}
		}), true},
		{[]string{"DRY RUN", "POLICY", "FOR", "WOULD"}, of(partDryRun, func(r *openOne) []string {
			would := dash(r.Would)
			if r.BlockedBy != "" && r.BlockedBy != gates.ReasonDryRun {
				would += ", held by " + r.BlockedBy
			}
			return []string{t.ago(r.Since.Time), would}
		}), true},
	} {
		if len(section.rows) == 0 {
			continue
		}
		if wide && section.named {
			section.header = append(section.header, "NAME")
		}
		rows, more := first(section.rows, wide)
		text.WriteString(fit(table(section.header, rows), wide) + more + "\n")
	}
	if text.Len() == 0 {
		return "Nothing is under way.\n\n"
	}
	return text.String()
}

// fleetText is how the nodes, the budgets and our own programs are.
func (t *tool) fleetText(s *fleetStatus, wide bool) string {
	var text strings.Builder
	var rows [][]string
	for _, n := range s.Nodes {
		rows = append(rows, []string{n.State, fmt.Sprint(n.Count), some(n.Names, wide)})
	}
	text.WriteString(fit(table([]string{"NODES", "COUNT", "NAMES"}, rows), wide))

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
		text.WriteString("\n" + fit(table([]string{"BUDGET", "GROUP", "NODES", "HEALTHY", "PERMITS", "STORM"}, rows), wide))
	}
	fmt.Fprintf(&text, "\nPolicies: %d, of which %d act (mode Enforce, not paused).\n", s.Policies, s.Enforced)
	text.WriteString(t.folded(s.Fences.text(wide)))

	rows = nil
	var problems string
	for _, a := range s.Agents {
		if a.Problem != "" {
			problems += fmt.Sprintf("%s: %s\n", a.Role, oneLine(a.Problem))
			continue
		}
		rows = append(rows, []string{a.Role, fmt.Sprint(a.Wanted), fmt.Sprint(a.Ready), fmt.Sprint(a.Old), some(a.Missing, wide)})
	}
	text.WriteString("\n")
	if len(rows) > 0 {
		text.WriteString(fit(table([]string{"ROLE", "WANTED", "READY", "OLD", "NOT READY ON"}, rows), wide))
	}
	text.WriteString(t.folded(problems))
	return text.String()
}
