package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/repairnote"
)

// hardwareFailure is the condition that the check hardware reports.
const hardwareFailure = "HardwareFailure"

func (t *tool) hardwareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hardware",
		Short: "What is wrong with servers, and acknowledging it",
		Long:  `See what the check hardware has found by the BMCs, and acknowledge it.`,
		Example: `  kubectl nodemend hardware describe worker-17
  kubectl nodemend hardware report
  kubectl nodemend hardware ack worker-17 --component DIMM_A1 --reason "DIMM A1 exchanged, ticket 4711"`,
	}
	cmd.AddCommand(t.hardwareDescribe(), t.hardwareReport(), t.hardwareAck())
	return cmd
}

// ticket is all that is known of the hardware of a node.
type ticket struct {
	Node       string `json:"node"`
	SystemUUID string `json:"systemUUID,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
	// Condition is the one that the check reports; nil if it does not.
	Condition *corev1.NodeCondition `json:"condition,omitempty"`
	// Remediations and Maintenances are those for it, newest first.
	Remediations []ticketRemediation `json:"remediations"`
	Maintenances []ticketMaintenance `json:"maintenances"`
	// BMC is what the node says by its BMC now; NotAsked why it does not.
	BMC      string `json:"bmc,omitempty"`
	NotAsked string `json:"notAsked,omitempty"`
}

type ticketRemediation struct {
	Name      string      `json:"name"`
	Policy    string      `json:"policy"`
	State     string      `json:"state"`
	BlockedBy string      `json:"blockedBy,omitempty"`
	Since     metav1.Time `json:"since"`
	// Reason and Message are what the check said when it began.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type ticketMaintenance struct {
	Name   string      `json:"name"`
	By     string      `json:"by"`
	Reason string      `json:"reason"`
	Since  metav1.Time `json:"since"`
	Drain  string      `json:"drain"`
	// Evidence is what the node has told last while something was broken.
	Evidence []v1alpha1.Evidence `json:"evidence,omitempty"`
}

// maxOfTicket is how many remediations and maintenances a ticket has.
const maxOfTicket = 5

func (t *tool) hardwareDescribe() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:   "describe NODE",
		Short: "What is wrong with a server, for a ticket",
		Long: `Show what is wrong with the hardware of a node, to be pasted into a ticket: what the check
reports, what came of it, and, from the node itself, each part with what its BMC says of it in words and in raw bytes,
and with the ID by which "hardware ack --seen" acknowledges it.

The node is asked by kubectl exec in the pod of its detector. Where that is not possible, the rest is
shown, and why.`,
		Example: `  kubectl nodemend hardware describe worker-17
  kubectl nodemend hardware describe worker-17 -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	form.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		n, err := node(ctx, c, args[0])
		if err != nil {
			return err
		}
		remediations, err := remediationsOf(ctx, c, n.Name)
		if err != nil {
			return err
		}
		maintenances, err := maintenancesOf(ctx, c, n.Name)
		if err != nil {
			return err
		}
		k := newTicket(n, remediations, maintenances)
		detectors, err := t.detectors(ctx, c, []corev1.Node{*n})
		if err == nil {
			k.BMC, err = t.onNode(ctx, detectors, n.Name, "hardware", "describe")
		}
		if err != nil {
			k.NotAsked = explained(err).Error()
		}
		return t.print(form, k, func() string { return t.ticketText(k) })
	})
	return cmd
}

func newTicket(n *corev1.Node, remediations []v1alpha1.Remediation, maintenances []v1alpha1.NodeMaintenance) ticket {
	k := ticket{
		Node: n.Name, SystemUUID: n.Status.NodeInfo.SystemUUID, ProviderID: n.Spec.ProviderID,
		Remediations: []ticketRemediation{}, Maintenances: []ticketMaintenance{}, // not null in JSON
	}
	if i := slices.IndexFunc(n.Status.Conditions, isHardwareFailure); i >= 0 {
		k.Condition = &n.Status.Conditions[i]
	}
	for i := range remediations {
		r := &remediations[i]
		if r.Spec.Trigger.Type == hardwareFailure && len(k.Remediations) < maxOfTicket {
			k.Remediations = append(k.Remediations, ticketRemediation{
				r.Name, r.Spec.Policy.Name, r.State(), r.BlockedBy(), r.StartedAt(), r.Spec.Trigger.Reason, r.Spec.Trigger.Message,
			})
		}
	}
	for i := range maintenances {
		m := &maintenances[i]
		if len(k.Maintenances) < maxOfTicket {
			k.Maintenances = append(k.Maintenances, ticketMaintenance{m.Name, wantedBy(m), m.Spec.Reason, m.CreationTimestamp, drainState(m), m.Status.Evidence})
		}
	}
	return k
}

// evidence returns what the node has told a technician last, by its condition, or else by what a
// maintenance has of it.
func (k ticket) evidence() []string {
	if k.Condition != nil {
		if _, told := repairnote.Split(k.Condition.Message); len(told) > 0 {
			return told
		}
	}
	for _, m := range k.Maintenances {
		for _, e := range m.Evidence {
			if e.Type == hardwareFailure {
				return e.Details
			}
		}
	}
	return nil
}

func isHardwareFailure(c corev1.NodeCondition) bool { return c.Type == hardwareFailure }

func (t *tool) ticketText(k ticket) string {
	var text strings.Builder
	facts := [][]string{{"Node:", k.Node}}
	for _, fact := range [][]string{{"System UUID:", k.SystemUUID}, {"Provider ID:", k.ProviderID}} {
		if fact[1] != "" {
			facts = append(facts, fact)
		}
	}
	if c := k.Condition; c == nil {
		facts = append(facts, []string{hardwareFailure + ":", "not reported: does the detector run, and has the server a BMC?"})
	} else {
		facts = append(facts,
			[]string{hardwareFailure + ":", fmt.Sprintf("%s (%s) since %s", c.Status, c.Reason, c.LastTransitionTime.UTC().Format(time.RFC3339))},
			[]string{"", repairnote.Said(c.Message)})
	}
	for _, m := range k.Maintenances {
		facts = append(facts, []string{"Maintenance:", fmt.Sprintf("%s since %s for %s: %s; drain: %s",
			m.Name, m.Since.UTC().Format(time.RFC3339), m.By, m.Reason, m.Drain)})
	}
	for _, r := range k.Remediations {
		state := r.State
		if r.BlockedBy != "" {
			state += ", blocked by " + r.BlockedBy
		}
		facts = append(facts,
			[]string{"Remediation:", fmt.Sprintf("%s of policy %s since %s: %s", r.Name, r.Policy, r.Since.UTC().Format(time.RFC3339), dash(state))},
			[]string{"", fmt.Sprintf("began with %s: %s", r.Reason, repairnote.Said(r.Message))})
	}
	text.WriteString(t.sentences(nil, facts))
	if k.NotAsked != "" {
		text.WriteString(t.folded("\nThe node was not asked: " + oneLine(k.NotAsked) + "\nOn the node: nodemend hardware describe\n"))
		if told := k.evidence(); len(told) > 0 {
			text.WriteString("\nWhat it has told last:\n" + quoted(strings.Join(told, "\n")))
		}
	} else {
		text.WriteString("\nFrom the node:\n" + quoted(k.BMC))
	}
	return text.String()
}
