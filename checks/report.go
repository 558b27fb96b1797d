package checks

import "time"

// Status is that of a condition, with the polarity of node-problem-detector.
type Status string

// The statuses of a condition.
const (
	// True is a problem.
	True Status = "True"
	// False is healthy.
	False Status = "False"
	// Unknown is what could not be told.
	Unknown Status = "Unknown"
)

// Report is what a monitor has to say at one time.
type Report struct {
	// Source is the name of the check, or that which a configuration file gives.
	Source       string
	Observations []Observation
	Events       []Event // the oldest first
}

// Send hands over a report. It waits until that is taken, and returns false if the
// monitor is to end before.
type Send func(*Report) bool

// Observation is what one run of a check has found out about one condition. That
// its status has changed is for the exporter to see.
type Observation struct {
	// Type is that of the condition.
	Type   string
	Status Status
	// At is when the run began that has found it.
	At time.Time
	// Reason is one CamelCase word; Message tells a person what was seen.
	Reason, Message string
}

// Event is something that has happened on the node and makes no condition.
type Event struct {
	// At is when it happened, by the node's clock.
	At              time.Time
	Reason, Message string
}
