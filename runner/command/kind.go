package command

import (
	"crypto/sha256"
	"fmt"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Kind is this kind of remedy.
func Kind() remedy.Kind {
	return remedy.Kind{
		Name: v1alpha1.RemedyCommand,
		New: func(h remedy.Host) remedy.Remedy {
			return New(Options{Dialer: h.Systemd, Execution: Mode(h.Execution), Dir: h.RunDir, HostProc: h.Proc, Clock: h.Clock})
		},
		Describe: func(s *v1alpha1.Step) string {
			if script := s.Command.Script; script != "" {
				return fmt.Sprintf("run a script of %d bytes, SHA-256 %x", len(script), sha256.Sum256([]byte(script)))
			}
			return fmt.Sprintf("run %q", s.Command.Argv)
		},
		Vetoed: func(v *runnerconfig.Veto, h remedy.Host, o remedy.Order) string {
			return v.Command(h.Root, started(&o.Step))
		},
		OnDisk: true,
	}
}

// started returns the path of the program that a command starts.
func started(step *v1alpha1.Step) string {
	if step.Command.Script != "" || len(step.Command.Argv) == 0 {
		return "/bin/sh"
	}
	return step.Command.Argv[0]
}
