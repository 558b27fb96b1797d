package runner

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/standing"
	"github.com/nodemend/nodemend/runner/remedy"
)

// newOrder makes the order for a decision to execute.
func newOrder(in input, d decision, now time.Time) remedy.Order {
	return remedy.Order{
		Action:    in.action.Name,
		UID:       in.action.UID,
		Step:      *d.step,
		Output:    in.policy.Spec.Output,
		Env:       environment(in),
		BootID:    in.bootID,
		StartedAt: now,
	}
}

// environment is the whole environment of a command. It is a promise to those who
// write commands, documented in docs/runner.md. PATH is for what the program
// starts; the program itself is named by an absolute path.
func environment(in input) []string {
	a := &in.action.Spec
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
		"NODEMEND_NODE=" + in.nodeName,
		"NODEMEND_POLICY=" + a.Policy.Name,
		"NODEMEND_REMEDIATION=" + a.Remediation,
		"NODEMEND_ACTION=" + in.action.Name,
		"NODEMEND_STEP=" + strconv.Itoa(1+slices.IndexFunc(in.policy.Spec.Steps, func(s v1alpha1.Step) bool {
			hash, err := s.Hash()
			return err == nil && hash == a.StepHash
		})),
		"NODEMEND_ATTEMPT=" + strconv.Itoa(int(a.Attempt)),
	}
	if c := standing.Matched(in.policy.Spec.Match, in.node); c != nil {
		env = append(env,
			"NODEMEND_CONDITION="+string(c.Type),
			"NODEMEND_CONDITION_STATUS="+string(c.Status),
			"NODEMEND_CONDITION_REASON="+printable(c.Reason),
		)
	}
	return env
}

// printable makes of a text that the API server has not looked at one that can be
// handed on: a short line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, clip(text))
}
