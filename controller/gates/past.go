package gates

import (
	"slices"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// remedyOf returns the remedy of an action; records of former versions do not say.
func remedyOf(r *v1alpha1.Remediation, record *v1alpha1.ActionRecord) *v1alpha1.Remedy {
	if step := r.Step(record.Step); record.Remedy == "" && step != nil {
		return step.Kind()
	}
	return v1alpha1.RemedyNamed(record.Remedy)
}

// counted returns the remediations that limits count beside the one that wants to act: those of the
// node, and those of former nodes of its name that were handed to another program. For that may
// have deleted the Node, which came back with another UID.
func (in Input) counted() []*v1alpha1.Remediation {
	var counted []*v1alpha1.Remediation
	for i := range in.Past {
		counted = append(counted, &in.Past[i])
	}
	for i := range in.Former {
		if in.Former[i].HandedOver() {
			counted = append(counted, &in.Former[i])
		}
	}
	return counted
}

// exceeded counts the events that happened within the rate's time before now, or
// later, and reports whether they leave no room for another one. If so, there is
// room again at next; zero: never, since the rate allows none at all.
func exceeded(rate *v1alpha1.Rate, events []time.Time, now time.Time) (count int, next time.Time, held bool) {
	per, allowed := rate.Per.Duration, int(rate.Count)
	recent := slices.DeleteFunc(slices.Clone(events), func(t time.Time) bool { return !t.Add(per).After(now) })
	count = len(recent)
	switch {
	case allowed == 0:
		return count, time.Time{}, true
	case count < allowed:
		return count, time.Time{}, false
	}
	slices.SortFunc(recent, time.Time.Compare)
	return count, recent[count-allowed].Add(per), true
}

// nextMay says when the next remediation may do something.
func nextMay(do string, next time.Time) string {
	if next.IsZero() {
		return "none may " + do
	}
	return "the next may " + do + " at " + stamp(next)
}

// recheckAt is the time until next, 0 if there is no such time.
func recheckAt(next, now time.Time) time.Duration {
	if next.IsZero() {
		return 0
	}
	return next.Sub(now)
}

// stamp writes a point in time as all messages do.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
