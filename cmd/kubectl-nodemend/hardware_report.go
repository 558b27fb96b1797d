package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/repairnote"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// fleetReport is what was wrong with servers, and what came of it.
type fleetReport struct {
	// Nodes by what they report now.
	Failed  int            `json:"failed"`
	Healthy int            `json:"healthy"`
	Unknown map[string]int `json:"unknown"` // by reason
	Silent  int            `json:"silent"`  // do not report it
	// Policies that match it, with their mode.
	Policies []string       `json:"policies"`
	Findings []fleetFinding `json:"findings"`
}

// fleetFinding is one kind of failure. Nodes are counted once in each number.
type fleetFinding struct {
	What string `json:"what"`
	// Nodes that have had it, and those that have it Now.
	Nodes int `json:"nodes"`
	Now   int `json:"now"`
	// WouldBeOut are those that a policy in DryRun, or held by a gate, would have taken out; Out
	// those that one has.
	WouldBeOut int `json:"wouldBeOut"`
	Out        int `json:"out"`
	// Parts are "worker-17 DIMM_A1".
	Parts []string `json:"parts"`
}

func (t *tool) hardwareReport() *cobra.Command {
	var form output
	var of nodeSet
	var since spanFlag
	cmd := &cobra.Command{
		Use:   "report",
		Short: "What is wrong with the fleet, and what policies make of it",
		Long: `Count what the check hardware has found: by what is wrong, with the parts. It counts what nodes
report now, and what remediations began with, as long as they are kept.

Read it while the policy is in DryRun, for a week: WOULD BE OUT is how many nodes it would have taken
out. Then change the rules of the check, or let it act.`,
		Example: `  kubectl nodemend hardware report
  kubectl nodemend hardware report --since 7d -l rack=r7 -o wide`,
		Args: cobra.NoArgs,
	}
	form.addTo(cmd)
	of.addTo(cmd)
	cmd.Flags().Var(&since, "since", "only remediations that started within this time, for example 7d")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, _ []string) error {
		nodes, err := of.nodes(ctx, c)
		if err != nil {
			return err
		}
		remediations, err := remediationsOf(ctx, c, "")
		if err != nil {
			return err
		}
		var policies v1alpha1.RemedyPolicyList
		if err := c.List(ctx, &policies); err != nil {
			return err
		}
		if since != 0 {
			remediations = slices.DeleteFunc(remediations, func(r v1alpha1.Remediation) bool {
				return t.clock.Since(r.StartedAt().Time) > time.Duration(since)
			})
		}
		report := newFleetReport(nodes, remediations, policies.Items)
		return t.print(form, report, func() string { return t.reportText(report, form.wide()) })
	})
	return cmd
}

func newFleetReport(nodes []corev1.Node, remediations []v1alpha1.Remediation, policies []v1alpha1.RemedyPolicy) fleetReport {
	report := fleetReport{Unknown: map[string]int{}, Policies: []string{}, Findings: []fleetFinding{}} // not null in JSON
	known := map[string]bool{}
	kinds := map[string]*tally{}
	for i := range nodes {
		n := &nodes[i]
		known[n.Name] = true
		at := slices.IndexFunc(n.Status.Conditions, isHardwareFailure)
		if at < 0 {
			report.Silent++
			continue
		}
		switch c := n.Status.Conditions[at]; c.Status {
		case corev1.ConditionTrue:
			report.Failed++
			take(kinds, n.Name, c.Reason, c.Message, func(k *tally) { k.now[n.Name] = true })
		case corev1.ConditionFalse:
			report.Healthy++
		default:
			report.Unknown[c.Reason]++
		}
	}
	for i := range remediations {
		r := &remediations[i]
		name, trigger := r.Spec.NodeName, r.Spec.Trigger
		if !known[name] || trigger.Type != hardwareFailure || trigger.Status != corev1.ConditionTrue {
			continue
		}
		take(kinds, name, trigger.Reason, trigger.Message, func(k *tally) {
			if actedUpon(r) {
				k.out[name] = true
			} else {
				k.wouldBeOut[name] = true
			}
		})
	}
	for what, k := range kinds {
		parts := make([]string, 0, len(k.parts))
		for part := range k.parts {
			parts = append(parts, part)
		}
		slices.Sort(parts)
		report.Findings = append(report.Findings, fleetFinding{what, len(k.nodes), len(k.now), len(k.wouldBeOut), len(k.out), parts})
	}
	slices.SortFunc(report.Findings, func(a, b fleetFinding) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.What, b.What))
	})
	for i := range policies {
		p := &policies[i]
		if slices.ContainsFunc(p.Spec.Match, func(m v1alpha1.ConditionMatch) bool { return m.Type == hardwareFailure }) {
			report.Policies = append(report.Policies, fmt.Sprintf("%s (%s)", p.Name, p.Spec.Mode))
		}
	}
	slices.Sort(report.Policies)
	return report
}

// tally are the nodes that have had one kind of failure, by their names, and the parts.
type tally struct{ nodes, now, wouldBeOut, out, parts map[string]bool }

// take notes what a message tells of a node. One that is not the check's own counts as its reason.
func take(kinds map[string]*tally, node, reason, message string, note func(*tally)) {
	said := slices.DeleteFunc(verdict.ReadMessage(repairnote.Said(message)), func(s verdict.Said) bool { return s.Aside })
	if len(said) == 0 {
		said = []verdict.Said{{What: reason}}
	}
	for _, s := range said {
		k := kinds[s.What]
		if k == nil {
			k = &tally{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
			kinds[s.What] = k
		}
		k.nodes[node] = true
		k.parts[strings.TrimSpace(node+" "+s.Component)] = true
		note(k)
	}
}

// actedUpon reports whether a remediation has taken its node out, or done anything else.
func actedUpon(r *v1alpha1.Remediation) bool {
	return r.Status.Maintenance != "" || slices.ContainsFunc(r.Status.History, func(a v1alpha1.ActionRecord) bool { return a.Acted() })
}

// fewParts is how many parts a line names.
const fewParts = 3

// reportText tells the answer to a person. If it is wide each kind of failure has one line, with all parts.
func (t *tool) reportText(f fleetReport, wide bool) string {
	var text strings.Builder
	unknown := 0
	var why []string
	for reason, n := range f.Unknown {
		unknown += n
		why = append(why, fmt.Sprintf("%s %d", oneLine(reason), n))
	}
	slices.Sort(why)
	fmt.Fprintf(&text, "Nodes: %d with failed hardware, %d healthy, %d unknown%s, %d that do not report it\n",
		f.Failed, f.Healthy, unknown, detail(strings.Join(why, ", "), ""), f.Silent)
	if len(f.Policies) == 0 {
		fmt.Fprintf(&text, "Policies: none matches %s, so nothing is taken out\n", hardwareFailure)
	} else {
		fmt.Fprintf(&text, "Policies: %s\n", oneLine(strings.Join(f.Policies, ", ")))
	}
	if len(f.Findings) == 0 {
		text.WriteString("\nnothing was found\n")
		return t.folded(text.String())
	}
	var rows [][]string
	for _, k := range f.Findings {
		parts := k.Parts
		if rest := len(parts) - fewParts; !wide && rest > 0 {
			parts = append(slices.Clone(parts[:fewParts]), fmt.Sprintf("and %d more", rest))
		}
		rows = append(rows, []string{k.What, fmt.Sprint(k.Nodes), fmt.Sprint(k.Now), fmt.Sprint(k.WouldBeOut), fmt.Sprint(k.Out), strings.Join(parts, ", ")})
	}
	header := []string{"WHAT", "NODES", "NOW", "WOULD BE OUT", "OUT", "PARTS"}
	if wide {
		return t.folded(text.String()) + "\n" + table(header, rows)
	}
	return t.folded(text.String()) + "\n" + t.sentences(header, rows)
}
