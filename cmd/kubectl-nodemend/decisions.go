package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/remediation"
)

// by names a user; without a name it says that none was recorded, as by kubectl annotate.
func by(name string) string {
	if name == "" {
		return "by somebody (no name recorded)"
	}
	return "by " + name
}

func at(when time.Time) string { return "at " + when.UTC().Format(time.RFC3339) }

// decisions are what people have decided about a remediation, and what they may decide
// next, as rows of a table.
func decisions(r *v1alpha1.Remediation, pauses []string) [][]string {
	var rows [][]string
	add := func(label string, lines ...string) {
		for i, line := range lines {
			if i > 0 {
				label = ""
			}
			rows = append(rows, []string{label, line})
		}
	}
	add("Approval:", approval(r)...)
	add("Retry:", retries(r)...)
	add("Exhausted:", exhaustion(r)...)
	add("Paused:", pauses...)
	return rows
}

// approval says what is approved, by whom and since when, and what has to be.
func approval(r *v1alpha1.Remediation) []string {
	var lines []string
	given := v1alpha1.PersonsDecision{Step: r.ApprovedStep(), By: r.ApprovedBy()}
	seen := r.Status.LastDecision(v1alpha1.DecisionApproved)
	switch {
	case given.Step == 0 && r.Ended() && seen != nil: // a tombstone has no annotation
		given = *seen
	case seen != nil && seen.Step == given.Step && seen.By == given.By:
		given.At = seen.At
	}
	if given.Step > 0 {
		line := fmt.Sprintf("up to step %d, %s", given.Step, by(given.By))
		if !given.At.IsZero() {
			line += " " + at(given.At.Time)
		}
		lines = append(lines, line)
	}
	if r.Ended() {
		return lines
	}
	for i := max(r.Status.Step, 1); int(i) <= len(r.Spec.Steps); i++ {
		step := r.Step(i)
		switch {
		case !step.RequireApproval || r.Approved(i):
		case i == r.Status.Step && r.BlockedBy() == gates.ReasonApprovalRequired:
			return append(lines, fmt.Sprintf("step %d (%s) waits for it; to approve: kubectl nodemend approve %s", i, step.Remedy(), r.Name))
		default:
			return append(lines, fmt.Sprintf("step %d (%s) needs it", i, step.Remedy()))
		}
	}
	return lines
}

// retries says who has started over last, and who asks for it.
func retries(r *v1alpha1.Remediation) []string {
	var lines []string
	if last := r.Status.LastDecision(v1alpha1.DecisionRetried); last != nil {
		lines = append(lines, fmt.Sprintf("started over %s %s", by(last.By), at(last.At.Time)))
	} else if r.Status.Retried != "" { // before decisions were written down
		lines = append(lines, "started over "+by(""))
	}
	if !r.Ended() && remediation.AsksForRetry(r) {
		heeded := "once the remediation waits for a person"
		if remediation.WaitsForRetry(r) {
			heeded = "as soon as the controller looks"
		}
		lines = append(lines, fmt.Sprintf("asked for %s; heeded %s", by(r.RetriedBy()), heeded))
	}
	return lines
}

// exhaustion says since when nothing is done any more, and what a person can do.
func exhaustion(r *v1alpha1.Remediation) []string {
	if r.State() != v1alpha1.ReasonExhausted {
		return nil
	}
	since := conditionOf(r, v1alpha1.RemediationProgressing).LastTransitionTime
	if request := r.Spec.Request; request != nil {
		return []string{fmt.Sprintf("since %s; %s goes on without it, and it ends when NodemendRemediation %s is deleted", since.UTC().Format(time.RFC3339), request.By(), request)}
	}
	lines := []string{
		fmt.Sprintf("since %s; it ends by itself once node %s has recovered", since.UTC().Format(time.RFC3339), r.Spec.NodeName),
		"to start over with step 1: kubectl nodemend retry " + r.Name,
	}
	if r.Status.Maintenance == "" {
		lines = append(lines, "to take the node out of service: kubectl nodemend maintenance start "+r.Spec.NodeName+` --reason "exhausted"`)
	}
	return lines
}

// pauses says what keeps new actions of an open remediation away now, and who has paused
// it.
func (t *tool) pauses(ctx context.Context, c client.Client, r *v1alpha1.Remediation) []string {
	if r.Ended() {
		return nil
	}
	var policy v1alpha1.RemedyPolicy
	var node corev1.Node
	var budgets v1alpha1.RemediationBudgetList
	for _, err := range []error{
		client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Name: r.Spec.Policy.Name}, &policy)),
		client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Name: r.Spec.NodeName}, &node)),
		c.List(ctx, &budgets),
	} {
		if apierrors.IsForbidden(err) {
			err = lacksRight(err)
		}
		if err != nil {
			return []string{"cannot be told: " + err.Error()}
		}
	}
	var lines []string
	if policy.Spec.Paused && policy.UID == r.Spec.Policy.UID {
		lines = append(lines, paused(&policy, "policy/"+policy.Name, policy.Spec.PauseReason)...)
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		if node.UID == "" || !b.Pauses(&node) {
			continue
		}
		name := "budget/" + b.Name
		if b.PausesCluster() {
			name = "" // it is resumed as the cluster
		}
		lines = append(lines, paused(b, name, b.Spec.PauseReason)...)
	}
	return lines
}

// paused says who has paused what, when and why, and how it is resumed.
func paused(obj client.Object, name, reason string) []string {
	line, resume := "the cluster", "kubectl nodemend resume"
	if name != "" {
		line, resume = strings.Replace(name, "/", " ", 1), resume+" "+name
	}
	line += ", " + by(v1alpha1.PausedBy(obj))
	if when := pausedAt(obj); !when.IsZero() {
		line += " " + at(when.Time) + " or before"
	}
	return []string{line + detail("", reason), "to resume: " + resume}
}

// pausedAt returns when whatever program has paused the object last wrote to it, as the API
// server noted it in the managed fields; zero if that is not known.
func pausedAt(obj metav1.Object) metav1.Time {
	for _, entry := range obj.GetManagedFields() {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || entry.Time == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := fields.Spec["f:paused"]; owns {
			return *entry.Time
		}
	}
	return metav1.Time{}
}
