package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/controller/outofservice"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/repairnote"
)

func (t *tool) whyCommand() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:   "why NODE",
		Short: "Why a node is, or is not, being repaired",
		Long: `Ask, for every policy that selects the node, what the controller would decide now:
whether a condition matches, since when and on which evidence, and what every gate
says about the next action, with its numbers and the time of the next look.

It is decided here, by the controller's own code, from what the API server has now:
the answer holds whether or not the controller runs.

A node may be held by several gates; the first is the one that is shown elsewhere.`,
		Example: `  kubectl nodemend why worker-17
  kubectl nodemend why worker-17 -o wide    # the gates that are open, too
  kubectl nodemend why worker-17 -o json | jq '.policies[].gates[] | select(.held)'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	form.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		w, err := t.why(ctx, c, args[0])
		if err != nil {
			return err
		}
		if err := t.print(form, w, func() string { return t.whyText(w, form.wide()) }); err != nil {
			return err
		}
		return w.untold()
	})
	return cmd
}

// why is the answer of the command.
type why struct {
	Node         string   `json:"node"`
	State        []string `json:"state"`
	Maintenances []string `json:"maintenances,omitempty"`
	OutOfService []string `json:"outOfService,omitempty"`
	// Words are those of people that the machine is off, and what comes of them.
	Words []string    `json:"words,omitempty"`
	Fence *fenceCheck `json:"fence,omitempty"`
	// Left is what the boot before has left.
	Left     []aftermath `json:"left,omitempty"`
	Budgets  []whyBudget `json:"budgets"`
	Policies []whyPolicy `json:"policies"`
	Others   []string    `json:"policiesForOtherNodes,omitempty"`
	// failed are the policies that cannot be told about.
	failed []string
}

// untold is an error if not all is told.
func (w *why) untold() error {
	if len(w.failed) == 0 {
		return nil
	}
	return fmt.Errorf("what the controller would decide cannot be told for %s: see above", strings.Join(w.failed, ", "))
}

// add adds what is told about a policy, or why nothing is.
func (w *why) add(p *whyPolicy, err error) {
	if err != nil {
		p.Verdict = "cannot be told: " + oneLine(explained(err).Error())
		w.failed = append(w.failed, "policy "+p.Policy)
	}
	w.Policies = append(w.Policies, *p)
}

type whyBudget struct {
	Name        string `json:"name"`
	Group       string `json:"group"`
	Permits     int    `json:"permits"`
	Limit       string `json:"limit"`
	Paused      bool   `json:"paused,omitempty"`
	PauseReason string `json:"pauseReason,omitempty"`
}

type whyPolicy struct {
	Policy      string     `json:"policy"`
	Mode        string     `json:"mode"`
	Conditions  []whyMatch `json:"conditions"`
	Remediation string     `json:"remediation,omitempty"`
	RequestedBy string     `json:"requestedBy,omitempty"`
	State       string     `json:"state,omitempty"`
	Verdict     string     `json:"verdict"`
	Rule        string     `json:"rule,omitempty"`
	Next        string     `json:"next,omitempty"`
	// Script is what Next runs, if it is a script that waits for approval.
	Script   string     `json:"script,omitempty"`
	NextLook *time.Time `json:"nextLook,omitempty"`
	Gates    []whyGate  `json:"gates"`
}

type whyMatch struct {
	Match    string       `json:"match"`
	Now      string       `json:"now"`
	Since    *metav1.Time `json:"since,omitempty"`
	Evidence string       `json:"evidence,omitempty"`
}

type whyGate struct {
	Gate    string     `json:"gate"`
	Held    bool       `json:"held"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Recheck *time.Time `json:"nextLook,omitempty"`
}

// why asks about all policies.
func (t *tool) why(ctx context.Context, c client.Client, name string) (*why, error) {
	n, err := node(ctx, c, name)
	if err != nil {
		return nil, err
	}
	var policies v1alpha1.RemedyPolicyList
	var budgets v1alpha1.RemediationBudgetList
	var maintenances v1alpha1.NodeMaintenanceList
	for _, list := range []client.ObjectList{&policies, &budgets, &maintenances} {
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
	}
	known, err := remediationsOf(ctx, c, name)
	if err != nil {
		return nil, err
	}
	w := &why{Node: name, State: nodeState(n), Budgets: []whyBudget{}, Policies: []whyPolicy{}}
	for i := range maintenances.Items {
		if m := &maintenances.Items[i]; m.KeepsActionsFrom(n) {
			w.Maintenances = append(w.Maintenances, m.Name+": "+m.Spec.Reason)
		}
	}
	if w.OutOfService, err = outOfService(ctx, c, n, maintenances.Items); err != nil {
		return nil, err
	}
	if w.Words, err = t.wordsOf(ctx, c, n, maintenances.Items); err != nil {
		return nil, err
	}
	if f := v1alpha1.FenceOf(n, t.clock.Now()); !f.Checked.IsZero() {
		w.Fence = &fenceCheck{n.Name, f.Fenceable, f.Reason, f.Message, f.Checked, true}
	}
	left, err := aftermaths(ctx, c, client.MatchingFields{"spec.nodeName": name})
	if err != nil {
		return nil, err
	}
	w.Left = slices.DeleteFunc(left, func(a aftermath) bool { return a.BootID != n.Status.NodeInfo.BootID })
	for _, b := range budget.Selecting(budgets.Items, n) {
		w.Budgets = append(w.Budgets, budgetOf(&b, n))
	}
	explainer, err := remediation.NewExplainer(ctx, c, t.clock)
	if err != nil {
		return nil, err
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if selected, err := fleet.Selects(policy.Spec.NodeSelector, n); err != nil || !selected {
			w.Others = append(w.Others, policy.Name)
			continue
		}
		w.add(t.whyPolicy(ctx, explainer, policy, n, known))
	}
	for i := range known {
		r := &known[i]
		told := slices.ContainsFunc(w.Policies, func(p whyPolicy) bool { return p.Remediation == r.Name })
		if told || r.Ended() || r.Spec.NodeUID != n.UID {
			continue
		}
		p := newWhyPolicy(r.Spec.Policy.Name, policyGone(r, policies.Items))
		w.add(p, t.explain(ctx, explainer, p, n, r))
	}
	return w, nil
}

// outOfService tells of the taint by which Nodemend frees pods and volumes of the node; nothing if it
// has none of ours.
func outOfService(ctx context.Context, c client.Client, n *corev1.Node, maintenances []v1alpha1.NodeMaintenance) ([]string, error) {
	if _, marked := n.Annotations[v1alpha1.OutOfServiceAnnotation]; !marked {
		return nil, nil
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
		return nil, err
	}
	var attachments storagev1.VolumeAttachmentList
	if err := c.List(ctx, &attachments); err != nil {
		return nil, err
	}
	return outofservice.Explain(n, pods.Items, attachments.Items, maintenances), nil
}

// policyGone says why no policy that selects the node has this open remediation.
func policyGone(r *v1alpha1.Remediation, policies []v1alpha1.RemedyPolicy) string {
	if slices.ContainsFunc(policies, func(p v1alpha1.RemedyPolicy) bool { return p.UID == r.Spec.Policy.UID }) {
		return "does not select the node any more"
	}
	return "deleted"
}

// nodeState says in words what matters about a node.
func nodeState(n *corev1.Node) []string {
	state := []string{"not Ready"}
	if ready := v1alpha1.FindNodeCondition(n, string(corev1.NodeReady)); ready != nil && ready.Status == corev1.ConditionTrue {
		state = []string{"Ready"}
	}
	_, ours := n.Annotations[v1alpha1.CordonedAnnotation]
	switch {
	case n.Spec.Unschedulable && ours:
		state = append(state, "cordoned by Nodemend")
	case n.Spec.Unschedulable:
		state = append(state, "cordoned by somebody else")
	}
	switch _, marked := n.Annotations[v1alpha1.OutOfServiceAnnotation]; {
	case marked:
		state = append(state, "out of service by Nodemend")
	case v1alpha1.IsOutOfService(n):
		state = append(state, "out of service by somebody else")
	}
	if v1alpha1.Excluded(n) {
		state = append(state, "excluded"+detail("", n.Annotations[v1alpha1.ExcludeReasonAnnotation]))
	}
	if n.DeletionTimestamp != nil {
		state = append(state, "being deleted")
	}
	return state
}

func budgetOf(b *v1alpha1.RemediationBudget, n *corev1.Node) whyBudget {
	group := b.Status.Groups[budget.GroupOf(b, n)]
	view := whyBudget{
		Name: b.Name, Group: budget.GroupOf(b, n), Permits: len(group.Permits),
		Paused: b.Spec.Paused, PauseReason: b.Spec.PauseReason,
	}
	concurrent := b.Spec.Concurrent()
	view.Limit = concurrent.String()
	if group.Limit != nil {
		view.Limit = fmt.Sprint(*group.Limit)
	}
	return view
}

// newWhyPolicy has nothing to tell yet. Its lists are empty, not null, in JSON.
func newWhyPolicy(policy, mode string) *whyPolicy {
	return &whyPolicy{Policy: policy, Mode: mode, Conditions: []whyMatch{}, Gates: []whyGate{}}
}

// whyPolicy asks about one policy that selects the node.
func (t *tool) whyPolicy(ctx context.Context, e *remediation.Explainer, policy *v1alpha1.RemedyPolicy, n *corev1.Node, known []v1alpha1.Remediation) (*whyPolicy, error) {
	p := newWhyPolicy(policy.Name, string(policy.Spec.Mode))
	if policy.Spec.Paused {
		p.Mode += ", paused"
	}
	for i := range policy.Spec.Match {
		p.Conditions = append(p.Conditions, conditionNow(&policy.Spec.Match[i], n))
	}
	i := slices.IndexFunc(known, func(r v1alpha1.Remediation) bool {
		return !r.Ended() && r.Spec.Policy.UID == policy.UID && r.Spec.NodeUID == n.UID
	})
	if i >= 0 {
		return p, t.explain(ctx, e, p, n, &known[i])
	}
	now := t.clock.Now()
	due, wait := match.Policy(policy, n, now, nil, func(t *v1alpha1.Trigger) bool { return match.Covers(known, n, policy, t) })
	trigger := due
	if trigger == nil {
		trigger = match.Now(policy, n, now)
	}
	if trigger == nil {
		p.Verdict = "nothing to do: no condition matches"
		if len(policy.Spec.Match) == 0 {
			p.Verdict = "nothing to do: the policy has no match, and no NodemendRemediation asks for it"
		}
		for i := range policy.Spec.Match {
			if old := ignored(&policy.Spec.Match[i], n, now); old != "" {
				p.Verdict = "nothing to do: " + old
			}
		}
		return p, nil
	}
	for i := range known {
		r := &known[i]
		if r.Spec.Policy.UID == policy.UID && r.Spec.NodeUID == n.UID && r.Covers(trigger, v1alpha1.DebounceOf(policy.Spec.Match, trigger)) {
			p.Remediation, p.State = r.Name, r.State()
			again := "when it has changed"
			if slices.Contains(r.AwaitedHealthy(), trigger.Type) {
				again = "after it was seen healthy for its debounce"
			}
			p.Verdict = fmt.Sprintf("over: remediation %s of this incident ended as %s; %s=%s starts another one %s",
				r.Name, r.State(), trigger.Type, trigger.Status, again)
			return p, nil
		}
	}
	err := t.explain(ctx, e, p, n, match.NewRemediation(policy, n, *trigger, match.Latest(known, n, policy)))
	p.Remediation, p.State = "", ""
	if m := debouncing(policy, trigger); m != nil {
		at := now.Add(m.For.Duration) // whatever it has counted so far
		p.NextLook = &at
		p.Verdict = fmt.Sprintf("waits until the controller has seen %s=%s for %s, by its own clock and without what is shorter than debounce, %s; it counts anew after its restart. If it runs, at the latest in %s",
			m.Type, m.Status, cut.Zeros(m.For.Duration), cut.Zeros(m.Debounce.Duration), span(m.For.Duration))
		return p, err
	}
	if due != nil {
		p.Verdict = "a remediation is due: the controller starts it as soon as it looks; does it run?"
		return p, err
	}
	at := now.Add(wait)
	p.NextLook = &at
	p.Verdict = fmt.Sprintf("waits until the condition has held for its time, in %s", span(wait))
	return p, err
}

// explain asks the controller's own code about a remediation.
func (t *tool) explain(ctx context.Context, explainer *remediation.Explainer, p *whyPolicy, n *corev1.Node, r *v1alpha1.Remediation) error {
	p.Remediation, p.State = r.Name, r.State()
	e, err := explainer.Explain(ctx, r)
	if err != nil {
		return err
	}
	now := t.clock.Now()
	at := func(wait time.Duration) *time.Time {
		if wait <= 0 {
			return nil
		}
		then := now.Add(wait).Truncate(time.Second)
		return &then
	}
	progressing, blocked := e.Progressing(), e.Blocked()
	p.State, p.Rule, p.NextLook = progressing.Reason, e.Rule, at(e.Wait)
	p.Verdict = progressing.Reason + detail("", progressing.Message)
	if blocked.Status == metav1.ConditionTrue {
		p.Verdict = "held by " + blocked.Reason + detail("", strings.TrimPrefix(blocked.Message, blocked.Reason+": "))
	}
	explained := *r
	explained.Status = e.Status
	if step := explained.Step(e.Status.Step); step != nil && len(e.Answers) > 0 {
		p.Next = fmt.Sprintf("step %d of %d, attempt %d of %d: %s",
			e.Status.Step, len(r.Spec.Steps), e.Status.Attempt, max(step.Attempts, 1), step.Describe())
		if step.RequireApproval && step.Command != nil {
			p.Script = step.Command.Script
		}
	}
	p.Conditions = p.Conditions[:0] // those of the remediation: the policy may have been edited
	if request := r.Spec.Request; request != nil {
		p.RequestedBy = requested(request)
	}
	for i, f := range e.Findings {
		if r.Spec.Request != nil {
			view := whyMatch{Match: f.Type, Now: "NodemendRemediation " + r.Spec.Request.String() + " is there", Evidence: proved(f)}
			if f.State == evidence.Clear {
				view.Now = "it is withdrawn"
			}
			p.Conditions = append(p.Conditions, view)
			continue
		}
		view := conditionNow(&r.Spec.Match[i], n)
		view.Evidence = proved(f) + byWhom(r, &r.Spec.Match[i])
		p.Conditions = append(p.Conditions, view)
	}
	for _, answer := range e.Answers {
		p.Gates = append(p.Gates, whyGate{
			Gate: answer.Gate, Held: answer.Verdict.Held(), Reason: answer.Verdict.Reason,
			Message: answer.Verdict.Message, Recheck: at(answer.Verdict.Recheck),
		})
	}
	return nil
}

// requested says who has asked for a remediation.
func requested(r *v1alpha1.Request) string {
	return r.By() + " (NodemendRemediation " + r.String() + ")"
}

// ignored says that a condition matches the entry and counts no more for its age; "": it is
// not so.
func ignored(m *v1alpha1.ConditionMatch, n *corev1.Node, now time.Time) string {
	if c := v1alpha1.FindNodeCondition(n, m.Type); !m.Matches(c) || !m.Ignores(c, now) {
		return ""
	}
	return fmt.Sprintf("%s=%s is so for longer than its ignoreAfter of %s, and counts no more", m.Type, m.Status, cut.Zeros(m.IgnoreAfter.Duration))
}

func proved(f evidence.Finding) string {
	switch f.State {
	case evidence.Faulty:
		return "the fault is confirmed"
	case evidence.Clear:
		return "clear"
	default:
		return "proves nothing: " + oneLine(f.Why)
	}
}

// debouncing returns the entry with debounce that has found the trigger, nil if it has none.
func debouncing(policy *v1alpha1.RemedyPolicy, t *v1alpha1.Trigger) *v1alpha1.ConditionMatch {
	i := slices.IndexFunc(policy.Spec.Match, func(m v1alpha1.ConditionMatch) bool {
		return m.Type == t.Type && m.Status == t.Status && m.Debounces()
	})
	if i < 0 {
		return nil
	}
	return &policy.Spec.Match[i]
}

// byWhom says what is not known here of an entry with debounce.
func byWhom(r *v1alpha1.Remediation, m *v1alpha1.ConditionMatch) string {
	if !m.Debounces() {
		return ""
	}
	told := " by the times of the condition; the controller counts by its own clock"
	if t := &r.Spec.Trigger; t.SeenSince != nil && t.Type == m.Type {
		told += ", and had seen it " + string(t.Status) + " since " + t.SeenSince.UTC().Format(time.RFC3339)
	}
	return told
}

// conditionNow says what one entry of a match finds on the node.
func conditionNow(m *v1alpha1.ConditionMatch, n *corev1.Node) whyMatch {
	view := whyMatch{Match: fmt.Sprintf("%s=%s", m.Type, m.Status), Now: "absent: is its check running?"}
	if len(m.Reasons) > 0 {
		view.Match += " (" + strings.Join(m.Reasons, " or ") + ")"
	}
	if m.For.Duration > 0 {
		view.Match += " for " + cut.Zeros(m.For.Duration)
	}
	if m.Debounces() {
		view.Match += ", debounce " + cut.Zeros(m.Debounce.Duration)
	}
	if m.IgnoreAfter.Duration > 0 {
		view.Match += " (ignored after " + cut.Zeros(m.IgnoreAfter.Duration) + ")"
	}
	c := v1alpha1.FindNodeCondition(n, m.Type)
	if c == nil {
		return view
	}
	view.Now = oneLine(string(c.Status)) + detail(c.Reason, repairnote.Said(c.Message))
	if !c.LastTransitionTime.IsZero() {
		view.Since = &c.LastTransitionTime
	}
	return view
}

// whyText tells the answer to a person.
func (t *tool) whyText(w *why, wide bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Node %s: %s\n", w.Node, strings.Join(w.State, ", "))
	for _, m := range w.Maintenances {
		fmt.Fprintf(&text, "In maintenance: %s\n", oneLine(m))
	}
	for _, line := range w.OutOfService {
		fmt.Fprintf(&text, "Out of service: %s\n", oneLine(line))
	}
	for _, line := range w.Words {
		fmt.Fprintf(&text, "Machine off: %s\n", oneLine(line))
	}
	if f := w.Fence; f != nil {
		could := "could be switched off from outside"
		if !f.Fenceable {
			could = "could not be switched off from outside"
		}
		fmt.Fprintf(&text, "Fence: it %s (%s), tried %s: %s\n", could, oneLine(f.Reason), t.checkedText(f.Checked), oneLine(f.Message))
	}
	for _, b := range w.Budgets {
		fmt.Fprintf(&text, "Budget %s, group %s: %d of %s permits taken", b.Name, b.Group, b.Permits, b.Limit)
		if b.Paused {
			text.WriteString(", PAUSED" + detail("", b.PauseReason))
		}
		text.WriteString("\n")
	}
	if len(w.Budgets) == 0 {
		text.WriteString("No budget selects this node, so nothing is done on it: create a RemediationBudget\n")
	}
	if len(w.Policies) == 0 {
		text.WriteString("No policy selects this node\n")
	}
	for i := range w.Policies {
		t.whyPolicyText(&text, &w.Policies[i], wide)
	}
	if len(w.Others) > 0 {
		fmt.Fprintf(&text, "\nPolicies that do not select this node: %s\n", strings.Join(w.Others, ", "))
	}
	return t.folded(text.String()) + leftText(w.Left)
}

func (t *tool) whyPolicyText(text *strings.Builder, p *whyPolicy, wide bool) {
	fmt.Fprintf(text, "\nPolicy %s (%s): %s\n", p.Policy, p.Mode, p.Verdict)
	for _, m := range p.Conditions {
		fmt.Fprintf(text, "  %s: now %s", m.Match, m.Now)
		if m.Since != nil {
			fmt.Fprintf(text, ", for %s", t.ago(m.Since.Time))
		}
		if m.Evidence != "" {
			fmt.Fprintf(text, "; %s", m.Evidence)
		}
		text.WriteString("\n")
	}
	for _, line := range []struct{ label, value string }{{"Remediation", p.Remediation}, {"Requested by", p.RequestedBy}, {"Next", p.Next}} {
		if line.value != "" {
			fmt.Fprintf(text, "  %s: %s\n", line.label, oneLine(line.value))
		}
	}
	text.WriteString(quoted(p.Script))
	if p.State == v1alpha1.ReasonExhausted && p.RequestedBy == "" {
		fmt.Fprintf(text, "  To start over with step 1: kubectl nodemend retry %s\n", p.Remediation)
	}
	if p.NextLook != nil {
		fmt.Fprintf(text, "  Next look: in %s\n", span(p.NextLook.Sub(t.clock.Now())))
	}
	var rows [][]string
	for _, g := range p.Gates {
		look := "-"
		if g.Recheck != nil {
			look = "in " + span(g.Recheck.Sub(t.clock.Now()))
		}
		switch {
		case g.Held:
			rows = append(rows, []string{"  " + g.Gate, "HELD", look, g.Message})
		case wide:
			rows = append(rows, []string{"  " + g.Gate, "open", "", g.Message})
		}
	}
	switch {
	case len(rows) == 1 && !wide && p.Remediation != "": // the verdict has said it
	case len(rows) > 0:
		text.WriteString(t.sentences([]string{"  GATE", "VERDICT", "NEXT LOOK", "WHY"}, rows))
	case len(p.Gates) > 0:
		fmt.Fprintf(text, "  All %d gates are open\n", len(p.Gates))
	}
}
