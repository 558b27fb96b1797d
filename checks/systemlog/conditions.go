package systemlog

import (
	"time"

	"github.com/nodemend/nodemend/checks"
)

// conditions is what the log has said about the declared conditions.
type conditions struct {
	// declared are the conditions with the reason and message of their False.
	declared []checks.Observation
	// clearAfter is how long after its last match a condition is False again, by
	// its type; without an entry it never is.
	clearAfter map[string]time.Duration
	// matches holds the latest match of each condition that is True.
	matches map[string]match
}

type match struct {
	reason  string
	message string
	at      time.Time // from when on clearAfter counts
}

func newConditions(declared []checks.Observation, clearAfter map[string]time.Duration) *conditions {
	return &conditions{declared: declared, clearAfter: clearAfter, matches: map[string]match{}}
}

// matched takes in a match that was found now and returns the condition as it is
// then; false if the match is so old that it changes nothing.
func (c *conditions) matched(conditionType string, m match, now time.Time) (checks.Observation, bool) {
	if c.over(conditionType, m, now) {
		return checks.Observation{}, false
	}
	if known, matched := c.matches[conditionType]; matched && known.at.After(m.at) {
		m.at = known.at
	}
	c.matches[conditionType] = m
	return m.condition(conditionType, now), true
}

// at returns all conditions at a time up to which the log has been read.
func (c *conditions) at(t time.Time) []checks.Observation {
	all := make([]checks.Observation, 0, len(c.declared))
	for _, declared := range c.declared {
		m, matched := c.matches[declared.Type]
		if matched && c.over(declared.Type, m, t) {
			delete(c.matches, declared.Type)
			matched = false
		}
		if matched {
			all = append(all, m.condition(declared.Type, t))
			continue
		}
		all = append(all, checks.Observation{
			Type: declared.Type, Status: checks.False, At: t, Reason: declared.Reason, Message: declared.Message,
		})
	}
	return all
}

func (c *conditions) over(conditionType string, m match, t time.Time) bool {
	after := c.clearAfter[conditionType]
	return after > 0 && t.Sub(m.at) >= after
}

func (m match) condition(conditionType string, observed time.Time) checks.Observation {
	return checks.Observation{
		Type: conditionType, Status: checks.True, At: observed, Reason: m.reason, Message: m.message,
	}
}
