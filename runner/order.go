package runner

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nodemend/nodemend/config/v1alpha1"
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
	if c := matched(in.policy.Spec.Match, in.node); c != nil {
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

// program returns the path of the program that a command starts.
func program(step *v1alpha1.Step) string {
	if step.Command.Script != "" || len(step.Command.Argv) == 0 {
		return "/bin/sh"
	}
	return step.Command.Argv[0]
}

// describe says what an order does, for people: "restart containerd.service".
func describe(order remedy.Order) string {
	step := &order.Step
	by := ""
	if order.Prepared.Execution != "" {
		by = " (" + string(order.Prepared.Execution) + ")"
	}
	switch step.Remedy() {
	case v1alpha1.RemedyCommand:
		if step.Command.Script != "" {
			return fmt.Sprintf("run a script of %d bytes, SHA-256 %x%s", len(step.Command.Script), sha256.Sum256([]byte(step.Command.Script)), by)
		}
		return fmt.Sprintf("run %q%s", step.Command.Argv, by)
	case v1alpha1.RemedyRestartUnit:
		return "restart " + step.RestartUnit.Name + by
	case v1alpha1.RemedyReboot:
		return "reboot the node" + by
	default:
		return "do something that this version of the runner does not know"
	}
}
