package verdict

import (
	"cmp"
	"slices"
)

// latch returns what ends the failure that p is.
func (j *judgement) latch(p *point) Latch {
	if rule, ok := j.rules.find(p.subject()); ok {
		return rule.Latch
	}
	return LatchPresent
}

// forget drops what is over, and what is too much.
func (j *judgement) forget() {
	for k, p := range j.points {
		rule, ok := j.rules.find(p.subject())
		if !ok || rule.counted() == nil {
			p.Occurrences, p.Reached = nil, nil
		} else {
			p.settle(*rule.counted(), j.in.Now)
			p.expire(rule.counted().Per, j.memory.Cursor, j.in.Now)
			if rule.Latch == LatchPresent && p.Reached != nil && !p.active(rule, j.in.Now) {
				p.Occurrences, p.Reached = nil, nil
			}
		}
		latched := p.Latched && ok && rule.Latch != LatchPresent
		isCountedOnly := rule.Rate != nil && !j.rules.lackOfInput(p.subject())
		holds := (p.Asserted || latched) && !isCountedOnly
		if !holds && len(p.Occurrences) == 0 && p.Reached == nil {
			delete(j.points, k)
		}
	}
	j.trim()
}

// trim keeps the points that matter most, and of those the youngest.
func (j *judgement) trim() {
	if len(j.points) <= maxPoints {
		return
	}
	type weighed struct {
		*point
		weight int
	}
	all := make([]weighed, 0, len(j.points))
	for _, p := range j.points {
		all = append(all, weighed{p, j.weight(p)})
	}
	slices.SortFunc(all, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), b.Since.Compare(a.Since), compareKeys(a.key, b.key))
	})
	for _, p := range all[maxPoints:] {
		delete(j.points, p.key)
	}
}

// weight is what it would cost to forget p.
func (j *judgement) weight(p *point) int {
	rule, ok := j.rules.find(p.subject())
	switch {
	case j.rules.lackOfInput(p.subject()) && (!ok || rule.Severity != SeverityFailure):
		return 1
	case !ok || rule.Severity == SeverityIgnore:
		return 0
	case rule.Severity == SeverityWarning:
		return 1
	case !p.active(rule, j.in.Now):
		return 2
	case p.History || p.acknowledged(rule) != nil:
		return 3
	default: // it takes the server out
		return 4
	}
}
