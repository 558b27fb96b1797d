// Package program switches the power of a machine by a program of the user's, with the
// convention of fence-agents (FenceAgentAPI): it gets key=value lines on its standard input,
// among them action=status, off or on. Status ends with 0 if the machine is on, 2 if it is
// off, and another number if that can't be told; off and on end with 0 if they have worked.
// On status it also writes a line "Status: ON" or "Status: OFF" on its standard output, as all
// of fence-agents do. The number alone tells nothing: 2 is also what a shell ends with that
// finds a mistake in a script, Python without its file, and an agent without its key.
//
// One thing is more than that convention: on status, the program says which machine it is,
// by a line uuid=UUID on its standard output. Without it, nothing is switched.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/child"
	"github.com/nodemend/nodemend/internal/power"
)

var _ power.Switch = (*Switch)(nil)

const (
	// maxOutput is how much a program may write.
	maxOutput = 64 << 10
	// outputGrace is how long output is waited for after the program has ended.
	outputGrace = time.Second
	// killGrace is how long a program is waited for after it was killed.
	killGrace = 5 * time.Second
)

// Exit statuses of status.
const (
	isOn  = 0
	isOff = 2
)

// Options say how the program is run.
type Options struct {
	// Path of the program, absolute. It is run without arguments.
	Path string
	// Name tells this switch from others of the program; it may be empty.
	Name string
	// Options are what it gets on its standard input.
	Options map[string]string
	// Secrets are options whose values are in files. They are shown to nobody else.
	Secrets map[string]power.Secret
}

// Switch is a machine whose power a program switches. It is safe for concurrent use if the
// program is.
type Switch struct{ options Options }

var key = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// New returns the switch. It runs nothing yet.
func New(o Options) (*Switch, error) {
	if !filepath.IsAbs(o.Path) {
		return nil, fmt.Errorf("the program %q is not an absolute path", o.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Secrets)) {
		if _, twice := o.Options[name]; twice {
			return nil, fmt.Errorf("the option %q is also one whose value is in a file", name)
		}
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(o.Options)), slices.Sorted(maps.Keys(o.Secrets))) {
		switch {
		case name == "action":
			return nil, errors.New("the option action is ours: status, off and on")
		case !key.MatchString(name):
			return nil, fmt.Errorf("the option %q is no name: accepted are letters, digits, _ and -, beginning with a letter", name)
		case strings.ContainsAny(o.Options[name], "\r\n\x00"):
			return nil, fmt.Errorf("the value of option %q has several lines: one is accepted", name)
		}
	}
	return &Switch{options: o}, nil
}

// String returns the program, and the name if there is one.
func (s *Switch) String() string {
	if s.options.Name == "" {
		return s.options.Path
	}
	return s.options.Path + " for " + s.options.Name
}

// Read returns what the program says on status.
func (s *Switch) Read(ctx context.Context, machine power.UUID) (r power.Reading, err error) {
	output, status, err := s.run(ctx, "status")
	if err != nil {
		return r, err
	}
	if r.Power, err = powerOf(output, status); err != nil {
		return r, fmt.Errorf("%s: %w. Run it by hand to see why", s, err)
	}
	if r.GUID, err = identity(output); err == nil {
		err = power.Check(r.GUID, machine)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", s, err)
	}
	return r, nil
}

// powerOf returns the power if the exit status and the only line about it say the same.
func powerOf(output string, status int) (power.State, error) {
	said := after(output, "Status: ")
	switch {
	case status != isOn && status != isOff:
		return "", fmt.Errorf("status ended with %d: accepted are %d, on, and %d, off", status, isOn, isOff)
	case len(said) != 1:
		return "", fmt.Errorf("status ended with %d, and wrote %d lines that begin with Status:, not one: accepted are Status: ON with %d, and Status: OFF with %d",
			status, len(said), isOn, isOff)
	case status == isOn && said[0] == "ON":
		return power.On, nil
	case status == isOff && said[0] == "OFF":
		return power.Off, nil
	}
	return "", fmt.Errorf("status ended with %d, and wrote another Status: than goes with that: accepted are Status: ON with %d, and Status: OFF with %d", status, isOn, isOff)
}

// identity returns the UUID of the only line that has one.
func identity(output string) (guid power.GUID, err error) {
	said := after(output, "uuid=")
	if len(said) != 1 {
		return guid, fmt.Errorf("%w: on status it wrote %d lines uuid=UUID, not one", power.ErrNoIdentity, len(said))
	}
	if guid, err = power.ParseGUID(said[0]); err != nil {
		return guid, fmt.Errorf("%w: %w", power.ErrNoIdentity, err)
	}
	return guid, nil
}

// after returns what follows this on each line that begins with it.
func after(output, prefix string) (all []string) {
	for line := range strings.Lines(output) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), prefix); is {
			all = append(all, text)
		}
	}
	return all
}

// Off runs the program with off, if it says on status that it is that of the machine.
func (s *Switch) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.turn(ctx, machine, "off", still)
}

// On is Off, for on.
func (s *Switch) On(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.turn(ctx, machine, "on", still)
}

func (s *Switch) turn(ctx context.Context, machine power.UUID, action string, still power.Still) error {
	if _, err := s.Read(ctx, machine); err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	_, status, err := s.run(ctx, action)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s: %s ended with %d: accepted is 0. Run it by hand to see why", s, action, status)
	}
	return err
}

// Shutdown is nothing that such a program does.
func (s *Switch) Shutdown(context.Context, power.UUID, power.Still) error {
	return fmt.Errorf("%s: %w: a program can't ask an operating system to shut down", s, power.ErrUnsupported)
}

// Identify is nothing that such a program does.
func (s *Switch) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, fmt.Errorf("%s: %w: a program has no light", s, power.ErrUnsupported)
}

// run runs the program, and returns what it has written and its exit status. What it writes
// is shown to nobody: it may repeat what it was told.
func (s *Switch) run(ctx context.Context, action string) (output string, status int, err error) {
	input, err := s.input(action)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", s, err)
	}
	stdout, stderr := child.Head{Limit: maxOutput}, child.Head{}
	cmd := &exec.Cmd{
		Path: s.options.Path, Args: []string{s.options.Path}, Dir: "/",
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
		Stdin: bytes.NewReader(input), Stdout: &stdout, Stderr: &stderr, WaitDelay: outputGrace,
	}
	err = await(ctx, func() error { return child.Run(ctx, cmd) })
	var exit *exec.ExitError
	switch {
	case errors.Is(err, errHangs):
		return "", 0, fmt.Errorf("%s: %w: %s %w", s, power.ErrNoAnswer, action, err)
	case ctx.Err() != nil:
		return "", 0, fmt.Errorf("%s: %w: %s was ended: %w", s, power.ErrNoAnswer, action, context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return stdout.String(), exit.ExitCode(), nil
	case err != nil:
		return "", 0, fmt.Errorf("%s: %w", s, err)
	}
	return stdout.String(), 0, nil
}

// errHangs is of a program that hangs in the kernel.
var errHangs = errors.New("was killed, and has not ended: it hangs in the kernel, such as on a disk that has died")

// await returns what run returns, or errHangs if that does not return soon after the end of
// ctx. Then nobody waits for it any more: its goroutine ends with the program, if ever.
func await(ctx context.Context, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-late.Done():
		return errHangs
	}
}

// input returns what the program reads.
func (s *Switch) input(action string) ([]byte, error) {
	var lines bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s.options.Options)) {
		fmt.Fprintf(&lines, "%s=%s\n", name, s.options.Options[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.options.Secrets)) {
		secret, err := s.options.Secrets[name].Read()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&lines, "%s=%s\n", name, secret)
	}
	fmt.Fprintf(&lines, "action=%s\n", action)
	return lines.Bytes(), nil
}
