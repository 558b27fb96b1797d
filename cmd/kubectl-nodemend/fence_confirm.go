package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/outofservice"
)

// confirmation is what a person says of a node.
type confirmation struct {
	node, maintenance, reason string
	yes, dryRun               bool
}

func (t *tool) fenceConfirmCommand() *cobra.Command {
	var say confirmation
	cmd := &cobra.Command{
		Use:   "confirm NODE",
		Short: "Say that the machine of a node is off: frees pods and volumes",
		Long: `Say, by your name, that the machine of a node is off, where nothing can read its power: you
have drawn its cords, or stand before it. On that word alone its pods and volumes start
elsewhere. IF THE MACHINE STILL RUNS AND WRITES, DATA IS LOST. Keep it off until kubectl
nodemend why NODE says that they are freed.

Your word is kept in a maintenance of yours that holds the node, for the boot that the node
says now, and for no other. Once the node answers, it counts no more. The taint that frees
them is taken away once that maintenance has ended and the node has booted. It is refused
while the node answers, and for 50 s after anything on it has written its status or renewed
its Lease; if its switch has said on when a remote runner asked it last; and if anything else
holds the node.

It needs controller.personsWord of the chart, and the ClusterRole nodemend-confirm
(docs/fencing.md). You are asked to type the name of the node, unless you give --yes.`,
		Example: `  kubectl nodemend maintenance start worker-17 --reason "fire in r7" --cordon-only
  kubectl nodemend fence confirm worker-17 --reason "both cords are drawn"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	cmd.Flags().StringVar(&say.reason, "reason", "", "how you know it, for people")
	cmd.Flags().StringVar(&say.maintenance, "maintenance", "", "`NAME` of the maintenance that keeps your word, where there are several")
	cmd.Flags().BoolVar(&say.yes, "yes", false, "do not ask back")
	cmd.Flags().BoolVar(&say.dryRun, "dry-run", false, "show what you would say, and whether it would be taken; nothing is kept")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		say.node, say.reason = args[0], strings.TrimSpace(say.reason)
		return t.confirmOff(ctx, c, say)
	})
	return cmd
}

// confirmOff keeps a person's word, if it would free anything now.
func (t *tool) confirmOff(ctx context.Context, c client.Client, say confirmation) error {
	n, err := node(ctx, c, say.node)
	if err != nil {
		return err
	}
	m, err := t.maintenanceForWord(ctx, c, say)
	if err != nil {
		return err
	}
	by := person(ctx, c)
	if by == "" {
		return errors.New("the API server does not say who you are (SelfSubjectReview), and a word without a name is none")
	}
	m.Spec.OutOfService, m.Spec.MachineOff = true, &v1alpha1.PersonsWord{
		Kind: v1alpha1.KindPersonsWord, NodeUID: n.UID, BootID: n.Status.NodeInfo.BootID, By: by, Reason: clip(say.reason),
	}
	m.Spec.MachineOff.Time.Time = t.clock.Now().Truncate(time.Second)
	if ready := v1alpha1.FindNodeCondition(n, string(corev1.NodeReady)); ready != nil {
		m.Spec.MachineOff.SilentSince = ready.LastTransitionTime
	}
	t.printf("Node %s: %s.\n", n.Name, t.lastHeardOf(ctx, c, n))
	t.printf("Its switch: %s.\n", t.switchText(n))
	if err := t.refusesWord(ctx, c, m, n); err != nil {
		return err
	}
	t.printf(`You say, as %s, in maintenance %s:
  the machine of node %s is off, which ends its boot %s, and it stays off until its pods and volumes are freed.
Then these start elsewhere. If the machine still runs and writes, data is lost.
`, by, m.Name, n.Name, n.Status.NodeInfo.BootID)
	if !say.yes && !say.dryRun {
		if err := t.typed(n.Name); err != nil {
			return err
		}
	}
	return t.keepWord(ctx, c, m, say.dryRun)
}

// maintenanceForWord returns the maintenance of a person that is to keep the word.
func (t *tool) maintenanceForWord(ctx context.Context, c client.Client, say confirmation) (*v1alpha1.NodeMaintenance, error) {
	found, err := maintenancesOf(ctx, c, say.node)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(m v1alpha1.NodeMaintenance) bool {
		return m.DeletionTimestamp != nil || m.Spec.Remediation != nil
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("no maintenance of a person holds node %s, which would keep your word; begin one: kubectl nodemend maintenance start %s --reason WHY --cordon-only", say.node, say.node)
	}
	if say.maintenance == "" && len(found) == 1 {
		return &found[0], nil
	}
	for i := range found {
		if found[i].Name == say.maintenance {
			return &found[i], nil
		}
	}
	if say.maintenance == "" {
		return nil, fmt.Errorf("node %s has %d maintenances: choose by --maintenance NAME which is to keep your word:\n%s", say.node, len(found), t.endingTable(found))
	}
	return nil, fmt.Errorf("node %s has no maintenance %q of a person; it has:\n%s", say.node, say.maintenance, t.endingTable(found))
}

// lastHeardOf says what is known of whether the node runs.
func (t *tool) lastHeardOf(ctx context.Context, c client.Client, n *corev1.Node) string {
	text := "it has no condition Ready"
	heard := time.Time{}
	if ready := v1alpha1.FindNodeCondition(n, string(corev1.NodeReady)); ready != nil {
		text = fmt.Sprintf("Ready is %s for %s", ready.Status, t.ago(ready.LastTransitionTime.Time))
		heard = ready.LastHeartbeatTime.Time
	}
	if at := leaseRenewed(ctx, c, n); at.After(heard) { // a kubelet writes it more often
		heard = at
	}
	if !heard.IsZero() {
		text += fmt.Sprintf(", and its kubelet was heard of %s ago", t.ago(heard))
	}
	if written := v1alpha1.LastWritten(n); written.After(heard) { // the kubelet may be all that is dead
		text += fmt.Sprintf(". Something on it wrote its status %s ago", t.ago(written))
	}
	return text
}

// leaseRenewed returns when the kubelet has renewed its Lease; zero: that is not to be had.
func leaseRenewed(ctx context.Context, c client.Client, n *corev1.Node) time.Time {
	var lease coordinationv1.Lease
	if err := c.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}, &lease); err != nil {
		return time.Time{} // the controller asks again
	}
	return v1alpha1.LeaseRenewed(&lease)
}

// switchText says what the switch of the node has said last.
func (t *tool) switchText(n *corev1.Node) string {
	f := v1alpha1.FenceOf(n, t.clock.Now())
	text := fmt.Sprintf("%s (%s)", f.Message, f.Reason)
	if !f.Checked.IsZero() {
		text += ", asked " + t.checkedText(f.Checked)
	}
	return text
}

// refusesWord is an error if the word would free nothing now.
func (t *tool) refusesWord(ctx context.Context, c client.Client, m *v1alpha1.NodeMaintenance, n *corev1.Node) error {
	why, err := t.againstWord(ctx, c, m, n)
	if err == nil && why != "" {
		err = fmt.Errorf("your word would free nothing, so it is not taken: %s", why)
	}
	return err
}

// againstWord returns why the word in a maintenance frees nothing now, "" if it does: the controller asks
// the same.
func (t *tool) againstWord(ctx context.Context, c client.Client, m *v1alpha1.NodeMaintenance, n *corev1.Node) (string, error) {
	var actions v1alpha1.NodeActionList
	if err := c.List(ctx, &actions, client.MatchingFields{index.ActionsByNode: n.Name}); err != nil {
		return "", err
	}
	pause := &v1alpha1.RemediationBudget{}
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterPauseBudget}, pause)); err != nil {
		return "", err
	}
	all, err := maintenancesOf(ctx, c, n.Name)
	if err != nil {
		return "", err
	}
	return outofservice.RefusesWord(m, n, leaseRenewed(ctx, c, n), actions.Items, all, pause, t.clock.Now()), nil
}

// wordsOf tells of the words of people that the machine of a node is off, and why they free nothing. Once
// pods and volumes are freed, others tell that.
func (t *tool) wordsOf(ctx context.Context, c client.Client, n *corev1.Node, maintenances []v1alpha1.NodeMaintenance) (lines []string, err error) {
	if _, marked := n.Annotations[v1alpha1.OutOfServiceAnnotation]; marked {
		return nil, nil
	}
	for i := range maintenances {
		m := &maintenances[i]
		word := t.wordText(m)
		if word == "" || m.Spec.NodeName != n.Name || m.DeletionTimestamp != nil {
			continue
		}
		why, err := t.againstWord(ctx, c, m, n)
		if err != nil {
			return nil, err
		}
		if why == "" {
			why = "the controller is about to free pods and volumes; if it does not, its log says why: controller.personsWord of the chart gives it the right"
		} else {
			why = "it frees nothing: " + why
		}
		lines = append(lines, fmt.Sprintf("%s, in maintenance %s; %s", word, m.Name, why))
	}
	return lines, nil
}

// typed has a person type the name of the node.
func (t *tool) typed(name string) error {
	t.printf("To give your word, type the name of the node: ")
	line, _ := bufio.NewReader(t.streams.In).ReadString('\n') // what ends without a line is no word
	t.printf("\n")
	if strings.TrimSpace(line) != name {
		return fmt.Errorf("that is not %s: your word is not given, and nothing was changed", name)
	}
	return nil
}

// keepWord writes the word into the maintenance.
func (t *tool) keepWord(ctx context.Context, c client.Client, m *v1alpha1.NodeMaintenance, dryRun bool) error {
	word := m.Spec.MachineOff
	fields := map[string]any{ // all of them: nothing is left of an earlier word
		"kind": word.Kind, "nodeUID": word.NodeUID, "bootID": word.BootID, "silentSince": word.SilentSince, "by": word.By, "time": word.Time, "reason": nil,
	}
	if word.Reason != "" {
		fields["reason"] = word.Reason
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.UID}, "spec": map[string]any{"outOfService": true, "machineOff": fields},
	})
	if err != nil {
		return err
	}
	options := []client.PatchOption{fieldOwner}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch), options...); err != nil {
		return fmt.Errorf("maintenance %s: %w", m.Name, err)
	}
	if m.Spec.MachineOff == nil || m.Spec.MachineOff.SilentSince.IsZero() {
		return fmt.Errorf("maintenance %s: the API server has not kept spec.machineOff.silentSince, so your word counts for nothing: apply the CustomResourceDefinitions of this version, then say it again", m.Name)
	}
	if dryRun {
		t.printf("your word would be taken; nothing was changed\n")
		return nil
	}
	t.printf("your word is taken. Keep the machine off until its pods and volumes are freed; see kubectl nodemend why %s\n", m.Spec.NodeName)
	return nil
}

// wordText says whose word it is that the machine is off; empty: nobody's.
func (t *tool) wordText(m *v1alpha1.NodeMaintenance) string {
	w := m.Spec.MachineOff
	if w == nil {
		return ""
	}
	return fmt.Sprintf("%s has said so %s ago, for boot %s%s", oneLine(w.By), t.ago(w.Time.Time), oneLine(w.BootID), prefixed(": ", oneLine(w.Reason)))
}
