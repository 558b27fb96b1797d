// Package program switches the power of a machine by a program of the user's, with the
// convention of fence-agents (FenceAgentAPI): it gets key=value lines on its standard input,
// among them action=status, off or on. Status ends with 0 if the machine is on, 2 if it is
// off, and another number if that can't be told; off and on end with 0 if they have worked.
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
	switch status {
	case isOn:
		r.Power = power.On
	case isOff:
		r.Power = power.Off
	default:
		return r, fmt.Errorf("%s: status ended with %d: accepted are %d, on, and %d, off. Run it by hand to see why", s, status, isOn, isOff)
	}
	if r.GUID, err = identity(output); err == nil {
		err = power.Check(r.GUID, machine)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", s, err)
	}
	return r, nil
}

// identity returns the UUID of the only line that has one.
func identity(output string) (guid power.GUID, err error) {
	found := 0
	for line := range strings.Lines(output) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "uuid="); is {
			found++
			if guid, err = power.ParseGUID(text); err != nil {
				return guid, fmt.Errorf("%w: %w", power.ErrNoIdentity, err)
			}
		}
	}
	if found != 1 {
		return guid, fmt.Errorf("%w: on status it wrote %d lines uuid=UUID, not one", power.ErrNoIdentity, found)
	}
	return guid, nil
}

// Off runs the program with off, if it says on status that it is that of the machine.
func (s *Switch) Off(ctx context.Context, machine power.UUID) error {
	return s.turn(ctx, machine, "off")
}

// On is Off, for on.
func (s *Switch) On(ctx context.Context, machine power.UUID) error {
	return s.turn(ctx, machine, "on")
}

func (s *Switch) turn(ctx context.Context, machine power.UUID, action string) error {
	if _, err := s.Read(ctx, machine); err != nil {
		return err
	}
	_, status, err := s.run(ctx, action)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s: %s ended with %d: accepted is 0. Run it by hand to see why", s, action, status)
	}
	return err
}

// Identify is nothing that such a program does.
func (s *Switch) Identify(context.Context, power.UUID, bool) error {
	return fmt.Errorf("%s: %w: a program has no light", s, power.ErrUnsupported)
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
	err = child.Run(ctx, cmd)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", 0, fmt.Errorf("%s: %w: %s was ended: %w", s, power.ErrNoAnswer, action, context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return stdout.String(), exit.ExitCode(), nil
	case err != nil:
		return "", 0, fmt.Errorf("%s: %w", s, err)
	}
	return stdout.String(), 0, nil
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
