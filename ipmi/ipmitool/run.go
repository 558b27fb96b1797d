package ipmitool

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/child"
	"github.com/nodemend/nodemend/ipmi"
)

const (
	// maxOutput is how much ipmitool may write: a SEL of 65535 records is half of it.
	maxOutput = 64 << 20
	maxStderr = 64 << 10
	// outputGrace is how long output is waited for after ipmitool has ended.
	outputGrace = time.Second
)

// divider is a line between the outputs of two commands. No text of a BMC is as long.
const divider = "== the next command of nodemend =="

// output is what the commands of a script have written.
type output struct {
	sections []string // one for each command
	stderr   string
}

// run runs the commands in one ipmitool, which ends with ctx or at its timeout. It
// fails if ipmitool does, unless mayFail: then sections may be empty.
func (s *Source) run(ctx context.Context, mayFail bool, commands ...string) (output, error) {
	args, env, err := s.options.connection()
	if err != nil {
		return output{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout,
		fmt.Errorf("%w: not done within %s", ipmi.ErrNoAnswer, s.options.Timeout))
	defer cancel()
	stdout, stderr := child.Head{Limit: maxOutput, Strict: true}, child.Head{Limit: maxStderr}
	// In a session of its own, without a terminal, it can't ask for a password.
	err = child.Run(ctx, &exec.Cmd{
		Path: s.program, Args: slices.Concat([]string{s.program}, args, []string{"exec", "/dev/stdin"}), Env: env,
		Stdin: strings.NewReader(script(commands)), Stdout: &stdout, Stderr: &stderr,
		WaitDelay: outputGrace,
	})
	switch {
	case ctx.Err() != nil:
		return output{}, s.errorf(commands, context.Cause(ctx))
	case stdout.Exceeded():
		return output{}, s.errorf(commands, fmt.Errorf("its output is longer than %d MiB", maxOutput>>20))
	}
	sections, complete := split(stdout.String(), len(commands))
	var exit *exec.ExitError
	if err != nil && (!mayFail || !complete || !errors.As(err, &exit)) {
		return output{}, s.errorf(commands, failure(err, stderr.String()))
	}
	if !complete {
		return output{}, s.errorf(commands, failure(ErrIncomplete, stderr.String()))
	}
	return output{sections, stderr.String()}, nil
}

func (s *Source) errorf(commands []string, err error) error {
	return fmt.Errorf("%s, %q: %w", s.options.name(), strings.Join(commands, "; "), err)
}

// script is what "ipmitool exec" reads: the commands, with dividers between them and
// one at the end. It goes on after a command that fails.
func script(commands []string) string {
	return strings.Join(commands, "\necho "+divider+"\n") + "\necho " + divider + "\n"
}

// split returns the outputs of the commands of a script, and whether all are there.
func split(text string, commands int) (sections []string, complete bool) {
	var section strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \n") == divider {
			sections = append(sections, section.String())
			section.Reset()
			continue
		}
		section.WriteString(line)
	}
	return sections, len(sections) == commands
}
