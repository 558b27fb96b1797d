package customplugin

import (
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// run is one run of one rule.
type run struct {
	started time.Time
	result  result
}

// judge combines the runs that the rules of one condition had in one round, in
// the order of the rules, into what is reported: a problem if any rule has found
// one; or else Unknown if any could not tell; or else healthy. A run is nil if
// its rule was not run; then only a problem is reported, and ok is false if there
// is none.
//
// Reasons and messages of several rules are joined in their order. At is
// the earliest start of a run: all of it was so later than that.
func judge(healthy checks.Observation, rules []rule, runs []*run) (judged checks.Observation, ok bool) {
	complete := true
	var problems, untold verdicts
	for i, run := range runs {
		if run == nil {
			complete = false
			continue
		}
		if judged.At.IsZero() || run.started.Before(judged.At) {
			judged.At = run.started
		}
		switch run.result.status {
		case checks.True:
			problems.add(rules[i].reason, run.result.message)
		case checks.Unknown:
			untold.add(run.result.reason, run.result.message)
		}
	}
	judged.Type = healthy.Type
	switch {
	case len(problems.messages) > 0:
		judged.Status, judged.Reason, judged.Message = checks.True, problems.reason(), problems.message()
	case !complete:
		return checks.Observation{}, false
	case len(untold.messages) > 0:
		judged.Status, judged.Reason, judged.Message = checks.Unknown, untold.reason(), untold.message()
	default:
		judged.Status, judged.Reason, judged.Message = checks.False, healthy.Reason, healthy.Message
	}
	return judged, true
}

// verdicts are reasons and messages of rules that agree on the status.
type verdicts struct {
	reasons, messages []string
}

func (v *verdicts) add(reason, message string) {
	if !slices.Contains(v.reasons, reason) {
		v.reasons = append(v.reasons, reason)
	}
	v.messages = append(v.messages, message)
}

func (v *verdicts) reason() string  { return strings.Join(v.reasons, ",") }
func (v *verdicts) message() string { return strings.Join(v.messages, "; ") }
