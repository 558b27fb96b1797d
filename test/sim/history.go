package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// history is a run told to people, line by line. It is told only when a seed is played
// again: it takes longer than the run.
type history struct {
	out   io.Writer
	began time.Time
}

// say adds a line; without a history it does nothing.
func (w *world) say(actor, format string, args ...any) {
	if w.history == nil {
		return
	}
	_, _ = fmt.Fprintf(w.history.out, "%9s %-16s %s\n", time.Since(w.history.began).Truncate(time.Second), actor, fmt.Sprintf(format, args...)) // to memory or to a terminal
}

// said tells a request with its answer; reads are told only when they fail.
func (w *world) said(c *call) {
	if w.history == nil || c.request.Verb == point || c.process.remote && !c.request.IsWrite() && apierrors.IsNotFound(c.answer) {
		return
	}
	answer := "ok"
	switch {
	case c.answer != nil && apierrors.ReasonForError(c.answer) != "":
		answer = string(apierrors.ReasonForError(c.answer))
	case c.answer != nil:
		answer = c.answer.Error()
	case !c.request.IsWrite():
		return
	}
	if c.abandoned {
		answer += ", and nobody waits for it"
	}
	w.say(c.process.name, "%s: %s", c.request, answer)
}

// changed tells what a write has changed.
func (w *world) changed(change apiserver.Change) {
	if w.history == nil {
		return
	}
	switch {
	case change.Old == nil:
		w.say("", "  + %s", describe(change.New))
	case change.New == nil:
		w.say("", "  - %s", describe(change.Old))
	default:
		before, after := describe(change.Old), describe(change.New)
		if before != after {
			w.say("", "  = %s", after)
		}
	}
}

// describe says what matters of an object in one line.
func describe(obj client.Object) string {
	text := fmt.Sprintf("%s %s", strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1alpha1."), obj.GetName())
	if obj.GetDeletionTimestamp() != nil {
		text += " (being deleted)"
	}
	switch o := obj.(type) {
	case *v1alpha1.Remediation:
		text += fmt.Sprintf(": %d/%d %s", o.Status.Step, o.Status.Attempt, o.State())
		if by := o.BlockedBy(); by != "" {
			text += ", blocked by " + by
		}
		if o.Status.Action != "" {
			text += ", action " + o.Status.Action
		}
		if o.Status.Maintenance != "" {
			text += ", maintenance " + o.Status.Maintenance
		}
		for _, r := range o.Status.History {
			text += fmt.Sprintf(" [%d/%d %s]", r.Step, r.Attempt, r.Outcome)
		}
		if o.Ended() {
			text += ", ended"
		}
	case *v1alpha1.NodeAction:
		text += fmt.Sprintf(": step %d/%d", o.Spec.Step, o.Spec.Attempt)
		if o.Status.Claim != nil {
			text += ", claimed"
		}
		if p := o.Status.Power; p != nil {
			text += fmt.Sprintf(", power %s %s", p.Phase, p.Outcome)
			if p.Held > 0 {
				text += fmt.Sprintf(" (%d)", p.Held)
			}
		}
		if f := o.Finished(); f != nil {
			text += ", finished: " + f.Reason
		}
	case *v1alpha1.NodeMaintenance:
		for _, c := range o.Status.Conditions {
			text += fmt.Sprintf(", %s=%s (%s)", c.Type, c.Status, c.Reason)
		}
	case *v1alpha1.RemediationBudget:
		for _, group := range sortedKeys(o.Status.Groups) {
			g := o.Status.Groups[group]
			text += fmt.Sprintf(" %s: %d nodes, limit %s, disruptions %s", group, g.Nodes, number(g.Limit), number(g.DisruptionLimit))
			if g.Storm != nil {
				text += ", storm"
			}
			for _, node := range sortedKeys(g.Permits) {
				p := g.Permits[node]
				text += fmt.Sprintf(" {%s: %s v%s disruptive=%t}", node, p.Remediation, p.Version, p.Disruptive)
			}
		}
	default:
		return describeOthers(obj, text)
	}
	return text
}

func number(n *int32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
