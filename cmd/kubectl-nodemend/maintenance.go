package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/remediation"
)

func (t *tool) maintenanceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "maintenance",
		Short: "Take nodes out of service and give them back",
		Example: `  kubectl nodemend maintenance start worker-17 --reason "swap DIMM A1"
  kubectl nodemend maintenance status
  kubectl nodemend maintenance end worker-17`,
	}
	cmd.AddCommand(t.maintenanceStart(), t.maintenanceStatus(), t.maintenanceEnd())
	return cmd
}

// drainFlags are those of kubectl drain, under its names.
type drainFlags struct {
	cordonOnly, emptyDir, force bool
	timeout                     spanFlag
	onTimeout, podSelector      string
	grace                       int64
}

func (f *drainFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.cordonOnly, "cordon-only", false, "do not drain the node")
	flags.BoolVar(&f.emptyDir, "delete-emptydir-data", false, "evict pods with emptyDir volumes, too: their data are lost")
	flags.BoolVar(&f.force, "force", false, "evict pods that no controller will create again, too")
	flags.Int64Var(&f.grace, "grace-period", -1, "how many seconds each pod has to stop (-1: its own)")
	flags.StringVar(&f.podSelector, "pod-selector", "", "evict only pods with these labels, for example app=web,tier!=db")
	f.timeout = spanFlag(time.Hour)
	flags.Var(&f.timeout, "timeout", "how long the drain may take")
	flags.StringVar(&f.onTimeout, "on-timeout", string(v1alpha1.OnTimeoutWait), "what is done then: Wait, Proceed or Abort")
}

// check refuses what makes no sense, or together none.
func (f *drainFlags) check(flags *pflag.FlagSet) error {
	for _, name := range []string{"delete-emptydir-data", "force", "grace-period", "pod-selector", "timeout", "on-timeout"} {
		if f.cordonOnly && flags.Changed(name) {
			return fmt.Errorf("--cordon-only does not drain: leave out --%s", name)
		}
	}
	accepted := []string{string(v1alpha1.OnTimeoutWait), string(v1alpha1.OnTimeoutProceed), string(v1alpha1.OnTimeoutAbort)}
	switch {
	case f.grace < -1:
		return fmt.Errorf("--grace-period %d: accepted are 0 or more seconds, and -1 for the pod's own", f.grace)
	case f.timeout < spanFlag(time.Second):
		return errors.New("--timeout must be at least 1s")
	case !slices.Contains(accepted, f.onTimeout):
		return fmt.Errorf("--on-timeout %q: accepted are %s", f.onTimeout, strings.Join(accepted, ", "))
	}
	return nil
}

// drain returns what the flags ask for, nil for none.
func (f *drainFlags) drain() (*v1alpha1.Drain, error) {
	if f.cordonOnly {
		return nil, nil
	}
	d := &v1alpha1.Drain{
		Timeout: v1alpha1.Duration{Duration: time.Duration(f.timeout)}, OnTimeout: v1alpha1.OnTimeout(f.onTimeout),
		DeleteEmptyDirData: f.emptyDir, Force: f.force,
	}
	if f.grace >= 0 {
		d.GracePeriodSeconds = &f.grace
	}
	if f.podSelector == "" {
		return d, nil
	}
	var err error
	d.PodSelector, err = podSelector(f.podSelector)
	return d, err
}

// podSelector reads a selector as kubectl writes it.
func podSelector(text string) (*v1alpha1.PodSelector, error) {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, fmt.Errorf("--pod-selector %q: %w", text, err)
	}
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn,
		selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	s := &v1alpha1.PodSelector{}
	for _, r := range requirements {
		operator, ok := operators[r.Operator()]
		if !ok {
			return nil, fmt.Errorf("--pod-selector %q: a maintenance cannot compare labels by %q; accepted are =, !=, in, notin, KEY and !KEY", text, r.Operator())
		}
		requirement := v1alpha1.LabelRequirement{Key: r.Key(), Operator: operator}
		for _, value := range r.Values().List() {
			requirement.Values = append(requirement.Values, v1alpha1.LabelValue(value))
		}
		s.MatchExpressions = append(s.MatchExpressions, requirement)
	}
	return s, nil
}

func (t *tool) maintenanceStart() *cobra.Command {
	var reason string
	var noWait, powerOff, outOfService, identify bool
	var f drainFlags
	var of nodeSet
	cmd := &cobra.Command{
		Use:   "start NODE...",
		Short: "Cordon and drain nodes, and keep them out of service",
		Long: `Create a NodeMaintenance for each node: it is cordoned, drained as kubectl drain does,
and kept out of service until the maintenance is ended. It acts at once, whatever budgets
say, on all the nodes, and counts in them. The drains go on when this command is
interrupted.

With --power-off the machine is shut down once the node is drained: its operating system
is asked to, and what still runs 10 minutes later is switched off, by its BMC. It is
switched on when the maintenance ends. With --out-of-service, too, what is left there
once it is proved to be off goes elsewhere: pods that could not end, and volumes; no pod
starts there before the maintenance has ended. --identify lights the lamp by which people find
the machine, until then. All need the remote runner; --power-off needs
remoteRunner.maintenancePower of the chart, too, and --out-of-service
remoteRunner.outOfService (docs/maintenance.md).`,
		Example: `  kubectl nodemend maintenance start worker-17 --reason "swap DIMM A1" --delete-emptydir-data
  kubectl nodemend maintenance start worker-17 --reason "swap DIMM A1" --power-off --identify
  kubectl nodemend maintenance start worker-17 worker-18 --reason "rack move" --timeout 2h
  kubectl nodemend maintenance start -l rack=r7 --reason quarantine --cordon-only`,
		Args:              of.args,
		ValidArgsFunction: t.completeNodes,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people (required)")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the end of the drain")
	cmd.Flags().BoolVar(&powerOff, "power-off", false, "shut the machine down once the node is drained, until the maintenance ends")
	cmd.Flags().BoolVar(&outOfService, "out-of-service", false, "with --power-off: free what is left of the node's pods and volumes once the machine is proved to be off")
	cmd.Flags().BoolVar(&identify, "identify", false, "light the lamp by which people find the machine, until the maintenance ends")
	of.addTo(cmd)
	f.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		if reason = strings.TrimSpace(reason); reason == "" {
			return errors.New(`--reason is required, for example --reason "swap DIMM A1"`)
		}
		if err := f.check(cmd.Flags()); err != nil {
			return err
		}
		if powerOff && f.cordonOnly {
			return errors.New("--cordon-only does not drain, and no machine is switched off with pods on it: leave out --power-off")
		}
		if outOfService && !powerOff {
			return errors.New("--out-of-service is for --power-off only. Of a machine that is off already, and whose power nothing can read: kubectl nodemend fence confirm NODE, afterwards")
		}
		drain, err := f.drain()
		if err != nil {
			return err
		}
		nodes, err := of.nodes(ctx, c, args...)
		if err != nil {
			return err
		}
		by := clip(person(ctx, c))
		var started []string
		var errs []error
		for i := range nodes {
			name := nodes[i].Name
			m := &v1alpha1.NodeMaintenance{
				ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), validation.DNS1123SubdomainMaxLength-30)] + "-"},
				Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: name, Reason: clip(reason), RequestedBy: by, Drain: drain, Identify: identify},
			}
			if powerOff {
				m.Spec.Power, m.Spec.OutOfService = v1alpha1.PowerRequestOff, outOfService
			}
			if err := c.Create(ctx, m, fieldOwner); err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", name, err))
				continue
			}
			t.printf("maintenance %s started; to give the node back: kubectl nodemend maintenance end %s\n", m.Name, name)
			started = append(started, m.Name)
		}
		if !noWait {
			errs = append(errs, t.progress(ctx, c, started))
		}
		return errors.Join(errs...)
	})
	return cmd
}

func (t *tool) maintenanceStatus() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:   "status [NODE]",
		Short: "Which nodes are out of service, why, and how far their drain is",
		Long: `List maintenances, of people and of policies; with -o wide, or of one node, also who has
asked for them, their names, the pods that are left, with the reason, and what the node
has told a technician of broken parts.`,
		Example:           `  kubectl nodemend maintenance status worker-17`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	form.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		var name string
		if len(args) == 1 {
			name = args[0]
		}
		found, err := maintenancesOf(ctx, c, name)
		if err != nil {
			return err
		}
		if name != "" && len(found) == 0 {
			if _, err := node(ctx, c, name); err != nil {
				return err
			}
		}
		for i := range found {
			found[i].ManagedFields = nil
			found[i].APIVersion, found[i].Kind = v1alpha1.GroupVersion.String(), "NodeMaintenance"
		}
		list := v1alpha1.NodeMaintenanceList{Items: append([]v1alpha1.NodeMaintenance{}, found...)} // not null in JSON
		list.APIVersion, list.Kind = v1alpha1.GroupVersion.String(), "NodeMaintenanceList"
		return t.print(form, list, func() string {
			if name != "" && !form.wide() {
				return t.maintenancesOfNode(found)
			}
			return t.maintenanceText(found, form.wide())
		})
	})
	return cmd
}

func (t *tool) maintenanceEnd() *cobra.Command {
	var policies, all bool
	var chosen []string
	cmd := &cobra.Command{
		Use:   "end NODE",
		Short: "Give a node back",
		Long: `Delete the maintenance that somebody has asked for on a node; with the last one it is
uncordoned, unless somebody else has cordoned it. Where there are several, say which:
others may rely on theirs.

So it is with what a policy has taken out and leaves to people: where it asks for a
release, its remediation is over, or the machine is off. Else it is given back by itself once it has
recovered; --policies gives it back now, and ends the remediation.`,
		Example: `  kubectl nodemend maintenance end worker-17
  kubectl nodemend maintenance end worker-17 --maintenance worker-17-x7k2p`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	cmd.Flags().StringSliceVar(&chosen, "maintenance", nil, "`NAME` of the one to end, where there are several; can be repeated")
	cmd.Flags().BoolVar(&all, "all", false, "end all of them, those of others, too")
	cmd.Flags().BoolVar(&policies, "policies", false, "end the maintenances of policies, too")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		if all && len(chosen) > 0 {
			return errors.New("give --maintenance NAME or --all, not both")
		}
		found, err := maintenancesOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		known, err := remediationsOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		ending := slices.DeleteFunc(slices.Clone(found), func(m v1alpha1.NodeMaintenance) bool {
			return m.DeletionTimestamp != nil || !policies && comesBack(&m, known)
		})
		if len(ending) == 0 {
			return nothingToEnd(ctx, c, args[0], found)
		}
		if !all {
			if ending, err = t.choose(args[0], ending, chosen); err != nil {
				return err
			}
		}
		var errs []error
		for i := range ending {
			m := &ending[i]
			if err := client.IgnoreNotFound(c.Delete(ctx, m, client.Preconditions{UID: &m.UID})); err != nil {
				errs = append(errs, fmt.Errorf("maintenance %s: %w", m.Name, err))
				continue
			}
			t.printf("maintenance %s (%s) ends\n", m.Name, m.Spec.Reason)
			if m.MayBeOff() {
				t.printf("its machine is switched on, unless another maintenance holds the node; until it has booted, see kubectl nodemend maintenance status %s\n", args[0])
			}
		}
		held := slices.DeleteFunc(slices.Clone(found), func(m v1alpha1.NodeMaintenance) bool { return m.DeletionTimestamp != nil })
		if left := len(held) - len(ending); left > 0 {
			t.printf("node %s stays out of service for %s; see kubectl nodemend maintenance status %s\n", args[0], count(left, "other maintenance"), args[0])
		}
		return errors.Join(errs...)
	})
	return cmd
}

// choose returns those of these names, or the only one.
func (t *tool) choose(nodeName string, ending []v1alpha1.NodeMaintenance, names []string) ([]v1alpha1.NodeMaintenance, error) {
	if len(names) == 0 && len(ending) == 1 {
		return ending, nil
	}
	var chosen []v1alpha1.NodeMaintenance
	for _, name := range names {
		i := slices.IndexFunc(ending, func(m v1alpha1.NodeMaintenance) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("node %s has no maintenance %q that could be ended; it has:\n%s", nodeName, name, t.endingTable(ending))
		}
		chosen = append(chosen, ending[i])
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("node %s has %d maintenances, and others may rely on theirs: choose by --maintenance NAME, or --all:\n%s",
			nodeName, len(ending), t.endingTable(ending))
	}
	return chosen, nil
}

func (t *tool) endingTable(ending []v1alpha1.NodeMaintenance) string {
	rows := make([][]string, len(ending))
	for i := range ending {
		m := &ending[i]
		rows[i] = []string{m.Name, wantedBy(m), t.ago(m.CreationTimestamp.Time), m.Spec.Reason}
	}
	return strings.TrimSuffix(table([]string{"NAME", "BY", "AGE", "REASON"}, rows), "\n")
}

// wantedBy says for whom a node is out of service.
func wantedBy(m *v1alpha1.NodeMaintenance) string {
	if m.Spec.Remediation != nil {
		return "remediation " + m.Spec.Remediation.Name
	}
	return dash(m.Spec.RequestedBy)
}

// comesBack reports whether a remediation gives the node back by itself. One that is
// being cancelled does not, and is waited for only while its action is under way. A machine that
// is off can't show that it has recovered.
func comesBack(m *v1alpha1.NodeMaintenance, known []v1alpha1.Remediation) bool {
	return m.Spec.Remediation != nil && !m.MayBeOff() && slices.ContainsFunc(known, func(r v1alpha1.Remediation) bool {
		over := r.Ended() || r.DeletionTimestamp != nil && r.Status.Action == ""
		return r.UID == m.Spec.Remediation.UID && !over && r.BlockedBy() != remediation.ReasonReleaseRequired
	})
}

func nothingToEnd(ctx context.Context, c client.Client, name string, found []v1alpha1.NodeMaintenance) error {
	if i := slices.IndexFunc(found, func(m v1alpha1.NodeMaintenance) bool { return m.DeletionTimestamp == nil }); i < 0 && len(found) > 0 {
		return fmt.Errorf("maintenance %s of node %s has ended, and is there until its machine is back; see kubectl nodemend maintenance status %s", found[0].Name, name, name)
	} else if i >= 0 {
		return fmt.Errorf("node %s is kept out of service by a policy: remediation %s gives it back once it has recovered; --policies gives it back now",
			name, found[i].Spec.Remediation.Name)
	}
	if _, err := node(ctx, c, name); err != nil {
		return err
	}
	return fmt.Errorf("node %s is not in maintenance", name)
}

// maintenancesOf returns the maintenances of a node, or of all, by node and name.
func maintenancesOf(ctx context.Context, c client.Client, nodeName string) ([]v1alpha1.NodeMaintenance, error) {
	var list v1alpha1.NodeMaintenanceList
	var opts []client.ListOption
	if nodeName != "" {
		opts = append(opts, client.MatchingFields{index.MaintenancesByNode: nodeName})
	}
	if err := c.List(ctx, &list, opts...); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NodeMaintenance) int {
		if c := strings.Compare(a.Spec.NodeName, b.Spec.NodeName); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, nil
}

// drainState says in short how far a maintenance is.
func drainState(m *v1alpha1.NodeMaintenance) string {
	drained := m.Condition(v1alpha1.MaintenanceDrained)
	if drained == nil {
		return "not started: does the controller run?"
	}
	if d := m.Status.Drain; d != nil {
		return fmt.Sprintf("%s %d%%, %d of %d pods left", drained.Reason, d.Percent, d.Left, d.Total)
	}
	return drained.Reason
}

// noMaintenance is the answer if there is none.
const noMaintenance = "no node is in maintenance\n"

// cordonState says whether the node of a maintenance is cordoned, "-" before anybody has looked.
func cordonState(m *v1alpha1.NodeMaintenance) string {
	if c := m.Condition(v1alpha1.MaintenanceCordoned); c != nil {
		return c.Reason
	}
	return "-"
}

func (t *tool) maintenanceText(found []v1alpha1.NodeMaintenance, wide bool) string {
	if len(found) == 0 {
		return noMaintenance
	}
	var text strings.Builder
	rows := make([][]string, len(found))
	for i := range found {
		m := &found[i]
		rows[i] = []string{m.Spec.NodeName, cordonState(m), drainState(m), t.ago(m.CreationTimestamp.Time), m.Spec.Reason}
		if wide {
			rows[i] = append(rows[i], wantedBy(m), m.Name)
		}
	}
	header := []string{"NODE", "CORDONED", "DRAINED", "AGE", "REASON"}
	if wide {
		header = append(header, "BY", "NAME")
	}
	text.WriteString(fit(table(header, rows), wide))
	text.WriteString(machineTable(found, wide))
	if wide {
		for i := range found {
			text.WriteString(t.maintenanceDetails(&found[i]))
		}
	}
	return text.String()
}

// machineTable says how light and power of the machines are that are switched, or are to be; empty if
// none is.
func machineTable(found []v1alpha1.NodeMaintenance, wide bool) string {
	var rows [][]string
	for i := range found {
		m := &found[i]
		power, why := powerState(m)
		light, whyLight := lightState(m)
		switch {
		case power == "" && light == "":
			continue
		case why == "" && whyLight != unheard:
			why = prefixed("light: ", whyLight)
		case why == "":
			why = whyLight
		case why != whyLight:
			why += prefixed("; light: ", whyLight)
		}
		row := []string{m.Spec.NodeName, dash(power), dash(light), why}
		if wide {
			row = slices.Insert(row, 1, m.Name)
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return ""
	}
	header := []string{"NODE", "POWER", "LIGHT", "WHY"}
	if wide {
		header = slices.Insert(header, 1, "NAME")
	}
	return "\n" + fit(table(header, rows), wide)
}

// askedFor is the state of what nobody has reported, and unheard says why.
const askedFor, unheard = "asked for", "nobody has reported: does a remote runner lead? See remoteRunner of the chart"

// powerState says how the power of the machine is, and why; empty: nobody asks for it.
func powerState(m *v1alpha1.NodeMaintenance) (state, why string) {
	switch s := m.Status.Power; {
	case s != nil && (m.Spec.Power != "" || s.Phase != v1alpha1.PowerWaiting):
		return string(s.Phase), oneLine(s.Message)
	case s == nil && m.Spec.Power != "":
		return askedFor, unheard
	}
	return "", ""
}

// lightState is powerState, of the lamp.
func lightState(m *v1alpha1.NodeMaintenance) (state, why string) {
	switch s := m.Status.Identify; {
	case s != nil && (m.Spec.Identify || m.MayShine() || s.Message != ""):
		return string(s.State), oneLine(s.Message)
	case s == nil && m.Spec.Identify:
		return askedFor, unheard
	}
	return "", ""
}

// prefixed is a text with what comes before it, if it says anything.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// maintenancesOfNode tells all of each maintenance of one node.
func (t *tool) maintenancesOfNode(found []v1alpha1.NodeMaintenance) string {
	if len(found) == 0 {
		return noMaintenance
	}
	parts := make([]string, len(found))
	for i := range found {
		m := &found[i]
		rows := [][]string{
			{"Maintenance:", m.Name},
			{"Node:", m.Spec.NodeName},
			{"Since:", m.CreationTimestamp.UTC().Format(time.RFC3339) + ", for " + t.ago(m.CreationTimestamp.Time)},
			{"By:", wantedBy(m)},
			{"Reason:", m.Spec.Reason},
			{"Cordoned:", cordonState(m)},
			{"Drained:", drainState(m)},
		}
		if state, why := powerState(m); state != "" {
			rows = append(rows, []string{"Power:", state + prefixed(": ", why)})
		}
		if word := t.wordText(m); word != "" {
			rows = append(rows, []string{"Machine off:", word})
		}
		if state, why := lightState(m); state != "" {
			rows = append(rows, []string{"Light:", state + prefixed(": ", why)})
		}
		parts[i] = t.sentences(nil, rows) + t.maintenanceDetails(m)
	}
	return strings.Join(parts, "\n")
}

// maintenanceDetails are the pods that are left, and what the node has told of broken parts.
func (t *tool) maintenanceDetails(m *v1alpha1.NodeMaintenance) string {
	var text strings.Builder
	if d := m.Status.Drain; d != nil && len(d.Pods) > 0 {
		text.WriteString("\n" + t.podTable(d.Pods))
	}
	for _, e := range m.Status.Evidence {
		fmt.Fprintf(&text, "\n%s (%s) since %s, for the technician:\n%s", oneLine(e.Type), oneLine(e.Reason),
			e.Since.UTC().Format(time.RFC3339), quoted(strings.Join(append([]string{e.Message}, e.Details...), "\n")))
	}
	return text.String()
}

func (t *tool) podTable(pods []v1alpha1.RemainingPod) string {
	var rows [][]string
	for _, p := range pods {
		rows = append(rows, []string{p.Namespace + "/" + p.Name, string(p.Reason), dash(p.Message)})
	}
	return t.sentences([]string{"POD THAT IS LEFT", "REASON", "MESSAGE"}, rows)
}
