package checks

import "time"

// RuleType says what a rule of one of node-problem-detector's configuration files
// makes of a problem that it finds.
type RuleType string

// The types of a rule.
const (
	// Temporary rules report an event.
	Temporary RuleType = "temporary"
	// Permanent rules set a condition.
	Permanent RuleType = "permanent"
)

// Declared is a condition in one of node-problem-detector's configuration files: what
// is reported while there is no problem.
type Declared struct {
	Type string `json:"type"`
	// Status and Transition have no effect.
	Status     Status    `json:"status"`
	Transition time.Time `json:"transition"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
}

// WithoutProblem returns the conditions as they are without a problem. Nobody has
// observed them yet: they have neither a status nor a time.
func WithoutProblem(declared []Declared) []Observation {
	observations := make([]Observation, len(declared))
	for i, d := range declared {
		observations[i] = Observation{Type: d.Type, Reason: d.Reason, Message: d.Message}
	}
	return observations
}
