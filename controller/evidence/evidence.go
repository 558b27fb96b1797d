// Package evidence decides what a node condition proves: that the fault is
// there, that it is gone, or nothing at all. Judge is pure: everything it needs
// comes in as a value. A Tracker remembers what was seen of conditions whose own
// times say little.
package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Age limits of a report. A detector repeats a problem every 30 s and a
// healthy condition every 5 min (jittered), so a report older than this comes
// from a detector that no longer runs.
const (
	MaxProblemAge = 2 * time.Minute
	MaxHealthyAge = 7 * time.Minute
	// MaxLeaseAge is the default of the node controller's grace period.
	MaxLeaseAge = 50 * time.Second
)

// MaxAge is how old a report of this status is at most that proves something.
func MaxAge(status corev1.ConditionStatus) time.Duration {
	if status == corev1.ConditionFalse {
		return MaxHealthyAge
	}
	return MaxProblemAge
}

// statusPeriod is how often a kubelet looks at what its conditions say. It renews
// its Lease besides: a lease that is renewed proves that it has looked no longer
// than that before.
const statusPeriod = 10 * time.Second

// MaxSkew is how far ahead of our clock a report may be. Reports carry whole
// seconds, so this leaves little room for a clock that is wrong.
const MaxSkew = 5 * time.Second

// State is what a condition proves.
type State int

const (
	// Unconfirmed means that nothing is proved; Finding.Why says why.
	Unconfirmed State = iota
	// Faulty means that the fault is confirmed to be there.
	Faulty
	// Clear means that the fault is confirmed to be gone.
	Clear
)

// Finding is the judgement of one entry of a policy's match.
type Finding struct {
	// Type of the condition.
	Type string
	// State is what it proves.
	State State
	// Since is the condition's lastTransitionTime, or since when a [Tracker] has seen it
	// so; zero when it is absent.
	Since time.Time
	// Why explains Unconfirmed to a person.
	Why string
	// Due is when time alone will make another finding of it; zero: it will not, or nobody
	// knows.
	Due time.Time
}

// Input is what a judgement is made from.
type Input struct {
	// Node as last seen.
	Node *corev1.Node
	// LeaseRenewed is when the API server last saw the kubelet renew the node's Lease,
	// by the server's clock; zero when there is none. Needed when match names a
	// condition of the kubelet's, whose own clock may be wrong.
	LeaseRenewed time.Time
	// After is the end of the last action on the node, or its last boot: what was
	// observed before it, or in the same second, proves nothing. Zero: no action yet.
	After time.Time
	// Began is when the remediation was created: a fault that has come back since has to
	// hold for its time again. Zero: none has to.
	Began time.Time
	// Seen is what a Tracker has seen for the entries of match with debounce, by their
	// index. Nil: nobody counts, and lastTransitionTime is believed.
	Seen []Seen
	// Now is the time of the decision.
	Now time.Time
}

// seen returns what was seen for an entry.
func (in Input) seen(i int, c *corev1.NodeCondition) Seen {
	if in.Seen == nil {
		return Seen{Held: c.LastTransitionTime.Time, Status: c.Status, Since: c.LastTransitionTime.Time}
	}
	return in.Seen[i]
}

// NeedsLease reports whether the freshness of conditions of this type is that of
// the node's Lease: the kubelet repeats an unchanged status only every 5 minutes, and
// NetworkUnavailable, which a network plugin or a cloud's controller sets, is
// written by nobody but when it changes.
func NeedsLease(conditionType string) bool {
	return v1alpha1.KubeletOwned(conditionType) || conditionType == string(corev1.NodeNetworkUnavailable)
}

// Judge returns a finding for every entry of match, in its order.
func Judge(match []v1alpha1.ConditionMatch, in Input) []Finding {
	findings := make([]Finding, len(match))
	for i := range match {
		findings[i] = judge(match, i, in)
	}
	return findings
}

func judge(match []v1alpha1.ConditionMatch, i int, in Input) Finding {
	m := match[i]
	f := Finding{Type: m.Type}
	c := v1alpha1.FindNodeCondition(in.Node, m.Type)
	if c == nil {
		f.Why = fmt.Sprintf("node %s has no condition %s: is its check running?", in.Node.Name, m.Type)
		return f
	}
	f.Since = c.LastTransitionTime.Time

	if f.Why = unfresh(c, in); f.Why != "" {
		return f
	}
	if m.Debounces() {
		return debounced(match, m, c, in.seen(i, c), in)
	}
	switch {
	case m.Matches(c) && m.Ignores(c, in.Now):
		f.Why = fmt.Sprintf("%s is %s since %s, for longer than ignoreAfter (%s): it counts no more", m.Type, c.Status, clockTime(f.Since), m.IgnoreAfter.Duration)
	case m.Matches(c) && relapsed(f.Since, in) && f.Since.Add(m.For.Duration).After(in.Now):
		f.Why = fmt.Sprintf("%s is %s again since %s, and not yet for %s", m.Type, c.Status, clockTime(f.Since), m.For.Duration)
	case m.Matches(c):
		f.State = Faulty
	case c.Status == m.Status: // for another reason: another fault, and no recovery either
		f.Why = fmt.Sprintf("%s is %s, but for %q and not for %s: %s", m.Type, c.Status, c.Reason, strings.Join(m.Reasons, " or "), c.Message)
	case c.Status == healthy(match, m):
		f.State = Clear
	default:
		f.Why = fmt.Sprintf("%s is %s, which is neither the fault (%s) nor healthy (%s): %s",
			m.Type, c.Status, m.Status, healthy(match, m), c.Message)
	}
	return f
}

// debounced judges a fresh report by what was seen before it.
func debounced(match []v1alpha1.ConditionMatch, m v1alpha1.ConditionMatch, c *corev1.NodeCondition, seen Seen, in Input) Finding {
	f := Finding{Type: m.Type, Since: seen.Held}
	switch {
	case c.Status != seen.Status || m.Matches(c) && seen.Held.IsZero():
		f.Since, f.Why = time.Time{}, fmt.Sprintf("%s is %s, and something newer is known of it", m.Type, c.Status)
	case m.Matches(c) && (m.Ignores(c, in.Now) || m.IgnoresSince(seen.Held, in.Now)):
		f.Why = fmt.Sprintf("%s is %s for longer than ignoreAfter (%s): it counts no more", m.Type, c.Status, m.IgnoreAfter.Duration)
	case m.Matches(c) && relapsed(seen.Held, in) && seen.Held.Add(m.For.Duration).After(in.Now):
		f.Due = seen.Held.Add(m.For.Duration)
		f.Why = fmt.Sprintf("%s was seen %s again since %s, and not yet for %s", m.Type, c.Status, clockTime(f.Since), m.For.Duration)
	case m.Matches(c):
		f.State = Faulty
	case c.Status == m.Status: // for another reason: another fault, and no recovery either
		f.Why = fmt.Sprintf("%s is %s, but for %q and not for %s: %s", m.Type, c.Status, c.Reason, strings.Join(m.Reasons, " or "), c.Message)
	case c.Status == healthy(match, m):
		f.Since = seen.Since
		if due := seen.Since.Add(m.Debounce.Duration); due.After(in.Now) {
			f.Due = due
			f.Why = fmt.Sprintf("%s was seen %s since %s, and not yet for its debounce of %s", m.Type, c.Status, clockTime(f.Since), m.Debounce.Duration)
			break
		}
		f.State = Clear
	default:
		f.Why = fmt.Sprintf("%s is %s, which is neither the fault (%s) nor healthy (%s): %s",
			m.Type, c.Status, m.Status, healthy(match, m), c.Message)
	}
	return f
}

// relapsed reports whether what is so since a time has come back since the remediation began.
// A time from the future says nothing: a kubelet's clock is its node's, right or wrong.
func relapsed(since time.Time, in Input) bool {
	return !in.Began.IsZero() && since.After(in.Began) && !since.After(in.Now.Add(MaxSkew))
}

// healthy returns the status that proves recovery from m. Unknown never does.
func healthy(match []v1alpha1.ConditionMatch, m v1alpha1.ConditionMatch) corev1.ConditionStatus {
	if m.Type == string(corev1.NodeReady) {
		return corev1.ConditionTrue
	}
	// What one entry says of the condition holds for all of its type.
	for _, other := range match {
		if other.Type == m.Type && other.Healthy != "" {
			return other.Healthy
		}
	}
	for _, other := range append([]v1alpha1.ConditionMatch{m}, match...) {
		switch {
		case other.Type != m.Type || other.Status == corev1.ConditionUnknown:
		case other.Status == corev1.ConditionTrue:
			return corev1.ConditionFalse
		default:
			return corev1.ConditionTrue
		}
	}
	return corev1.ConditionFalse // as in conditions of node-problem-detector
}

// unfresh says why a condition proves nothing about the present; "" when it
// does. Texts name points in time, not ages: the same fact keeps its text.
func unfresh(c *corev1.NodeCondition, in Input) string {
	observed, maxAge, source := c.LastHeartbeatTime.Time, MaxAge(c.Status), "its check"
	if v1alpha1.KubeletOwned(string(c.Type)) && c.Status == corev1.ConditionUnknown {
		// Written by the node controller: proves absence, as long as the
		// kubelet is absent, and an action has had time to bring it back.
		if in.Now.Sub(in.LeaseRenewed) <= MaxLeaseAge {
			return fmt.Sprintf("%s is Unknown, but the kubelet still renews its lease", c.Type)
		}
		if in.Now.Sub(in.After) <= MaxLeaseAge {
			return fmt.Sprintf("%s is Unknown, and the last action or boot ended only at %s", c.Type, clockTime(in.After))
		}
		return ""
	}
	proved := observed
	if NeedsLease(string(c.Type)) {
		source, maxAge = "the kubelet", MaxLeaseAge
		if !in.LeaseRenewed.IsZero() {
			observed, proved = in.LeaseRenewed, in.LeaseRenewed.Add(-statusPeriod)
		}
	}
	age := in.Now.Sub(observed)
	switch {
	case age < -MaxSkew:
		return fmt.Sprintf("%s was reported at %s, which is in the future: the clocks of %s and the controller differ",
			c.Type, clockTime(observed), source)
	case age > maxAge:
		return fmt.Sprintf("%s was last reported at %s, more than %s ago: is %s running?",
			c.Type, clockTime(observed), maxAge, source)
	case !NeedsLease(string(c.Type)) && proved.Truncate(time.Second).Before(readySince(in)):
		return fmt.Sprintf("%s was not reported again since the node became Ready at %s", c.Type, clockTime(readySince(in)))
	case !in.After.IsZero() && !proved.Truncate(time.Second).After(in.After.Truncate(time.Second)):
		return fmt.Sprintf("%s was not reported again since the last action or boot at %s", c.Type, clockTime(in.After))
	}
	return ""
}

// readySince returns since when the node is Ready, zero if it is not or does not say. It
// may have booted just before: nobody else tells when that was. A time from the future
// says nothing: the kubelet's clock is its node's, right or wrong.
func readySince(in Input) time.Time {
	c := v1alpha1.FindNodeCondition(in.Node, string(corev1.NodeReady))
	if c == nil || c.Status != corev1.ConditionTrue || c.LastTransitionTime.After(in.Now) {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// AnyFaulty reports whether the fault is confirmed.
func AnyFaulty(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.State == Faulty })
}

// AllClear reports whether every finding is clear, and since when.
func AllClear(findings []Finding) (since time.Time, ok bool) {
	for _, f := range findings {
		if f.State != Clear {
			return time.Time{}, false
		}
		if f.Since.After(since) {
			since = f.Since
		}
	}
	return since, true
}

// Why returns the explanation of the first unconfirmed finding, "" if there is
// none.
func Why(findings []Finding) string {
	for _, f := range findings {
		if f.State == Unconfirmed {
			return f.Why
		}
	}
	return ""
}
