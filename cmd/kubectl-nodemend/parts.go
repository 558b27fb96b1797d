package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/remediation"
)

// part is where the status tells of an open remediation.
type part string

const (
	// partNeedsYou: nothing comes of it before a person has done something.
	partNeedsYou part = "NeedsYou"
	// partUnderWay: something is being done.
	partUnderWay part = "UnderWay"
	// partWaits: its turn comes by itself.
	partWaits part = "Waits"
	// partDryRun: its policy only shows what it would do, and has done nothing.
	partDryRun part = "DryRun"
)

// partOf says what an open remediation waits for.
func partOf(r *v1alpha1.Remediation) part {
	switch r.BlockedBy() {
	case gates.ReasonApprovalRequired, remediation.ReasonReleaseRequired, gates.ReasonNoBudget, gates.ReasonBudgetInvalid, v1alpha1.ReasonSuperseded,
		v1alpha1.ReasonRefused, v1alpha1.ReasonUnsupported, v1alpha1.ReasonUnitNotFound, v1alpha1.ReasonUnitMasked, v1alpha1.ReasonPowerWasOff:
		return partNeedsYou
	case gates.ReasonDryRun:
		return partDryRun
	case "":
		if remediation.WaitsForRetry(r) {
			return partNeedsYou
		}
		return partUnderWay
	default:
		if remediation.WaitsForRetry(r) {
			return partNeedsYou
		}
		return partWaits
	}
}

// need is something that waits for a person.
type need struct {
	Node string `json:"node"`
	What string `json:"what"`
	// Why is the message of what holds it.
	Why string `json:"why,omitempty"`
	// Do are commands: those that show more come first.
	Do []string `json:"do"`
}

// needOf says what a remediation needs of a person.
func (t *tool) needOf(r *v1alpha1.Remediation) need {
	n := need{Node: r.Spec.NodeName, Do: []string{"kubectl nodemend describe " + r.Name}}
	progressing, blocked := conditionOf(r, v1alpha1.RemediationProgressing), conditionOf(r, v1alpha1.RemediationBlocked)
	what, since := r.State(), progressing.LastTransitionTime
	if r.BlockedBy() != "" {
		what, since = r.BlockedBy(), blocked.LastTransitionTime
	}
	n.What, n.Why = fmt.Sprintf("%s: %s for %s", r.Spec.Policy.Name, what, t.ago(since.Time)), message(r)
	switch step := r.Step(r.Status.Step); {
	case r.BlockedBy() == gates.ReasonApprovalRequired && step != nil:
		n.Do = append(n.Do, "kubectl nodemend approve "+r.Name)
		n.Why = fmt.Sprintf("step %d: %s", r.Status.Step, step.Describe())
	case r.BlockedBy() == remediation.ReasonReleaseRequired:
		n.Do = append(n.Do, "kubectl nodemend maintenance end "+r.Spec.NodeName)
	case remediation.WaitsForRetry(r):
		n.Do = append(n.Do, "kubectl nodemend retry "+r.Name)
	default:
		n.Do = []string{"kubectl nodemend why " + r.Spec.NodeName}
	}
	return n
}

// drainStatus is how far a drain is that is under way.
type drainStatus struct {
	Node        string `json:"node"`
	Maintenance string `json:"maintenance"`
	State       string `json:"state"`
	Percent     int32  `json:"percent"`
	Left        int32  `json:"left"`
	Total       int32  `json:"total"`
	// Deadline is when its time is over, and OnTimeout what is done then.
	Deadline  *time.Time `json:"deadline,omitempty"`
	OnTimeout string     `json:"onTimeout"`
	// WaitsFor is a pod that is left, with the reason, if one of them does not go by itself.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// overdue reports whether the time of a drain is over, and pods are left.
func (d *drainStatus) overdue() bool {
	return d.State == v1alpha1.ReasonDrainTimedOut || d.State == v1alpha1.ReasonDrainAborted
}

// drains are those under way: those that have not started, then by when their time is over.
func drains(maintenances []v1alpha1.NodeMaintenance) []drainStatus {
	found := []drainStatus{}
	for i := range maintenances {
		m := &maintenances[i]
		if m.Spec.Drain == nil || m.DeletionTimestamp != nil || m.Drained() {
			continue
		}
		d := drainStatus{Node: m.Spec.NodeName, Maintenance: m.Name, State: "not started", OnTimeout: string(m.Spec.Drain.OnTimeout)}
		if c := m.Condition(v1alpha1.MaintenanceDrained); c != nil {
			d.State = c.Reason
		}
		if s := m.Status.Drain; s != nil {
			deadline := s.StartedAt.Add(m.Spec.Drain.Timeout.Duration)
			d.Percent, d.Left, d.Total, d.Deadline, d.WaitsFor = s.Percent, s.Left, s.Total, &deadline, obstacle(s)
		}
		found = append(found, d)
	}
	slices.SortStableFunc(found, func(a, b drainStatus) int {
		return cmp.Or(ptr.Deref(a.Deadline, time.Time{}).Compare(ptr.Deref(b.Deadline, time.Time{})), cmp.Compare(a.Node, b.Node))
	})
	return found
}

// obstacle is the first pod that does not go by itself, "" for none.
func obstacle(d *v1alpha1.DrainStatus) string {
	for i := range d.Pods {
		if p := &d.Pods[i]; p.Reason != v1alpha1.PodTerminating && p.Reason != v1alpha1.PodEvictable {
			return fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, p.Reason)
		}
	}
	return ""
}

// timeLeft says how long a drain may still take.
func (t *tool) timeLeft(d *drainStatus) string {
	if d.Deadline == nil {
		return "-"
	}
	if left := d.Deadline.Sub(t.clock.Now()); left > 0 {
		return "in " + span(left)
	}
	return "OVER for " + t.ago(*d.Deadline)
}
