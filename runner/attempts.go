package runner

import (
	"k8s.io/apimachinery/pkg/types"
)

// progress is how far this process has come with an action.
type progress int

const (
	// untouched: this process has done nothing for the action.
	untouched progress = iota
	// claiming: a claim was sent. Whether it was committed only the API server
	// knows; nothing was executed.
	claiming
	// started: the remedy may have had a side effect.
	started
)

// attempt is what this process remembers of one action.
type attempt struct {
	name     string
	progress progress
	// remedy is the word for what was started.
	remedy string
	// unreported is the outcome that waits to be written, or nil.
	unreported *outcome
}

// attempts remembers, by the UID of the action, what this process has begun.
// An entry is kept until its action is deleted, so the memory is bounded by
// the actions that exist for this node. Not safe for concurrent use.
type attempts map[types.UID]*attempt

// of returns the entry of an action, which is made if there is none.
func (a attempts) of(uid types.UID, name string) *attempt {
	if a[uid] == nil {
		a[uid] = &attempt{name: name}
	}
	return a[uid]
}

// progressOf returns how far this process has come with an action.
func (a attempts) progressOf(uid types.UID) progress {
	if a[uid] == nil {
		return untouched
	}
	return a[uid].progress
}

// forget drops all entries of this name but the one with the given UID, and
// returns the outcomes that now nobody will ever see.
func (a attempts) forget(name string, except types.UID) []outcome {
	var lost []outcome
	for uid, at := range a {
		if at.name != name || uid == except {
			continue
		}
		if at.unreported != nil {
			lost = append(lost, *at.unreported)
		}
		delete(a, uid)
	}
	return lost
}
