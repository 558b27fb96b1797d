package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/checks/hardware"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/ack"
	"github.com/nodemend/nodemend/internal/demand"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

const hardwareAckHelp = `Acknowledge failures, so that they do not keep the server out of service any more.

A memory or processor error is over as soon as it has happened, and what it has
proved is not: it counts until the SEL is cleared, the chassis was really powered
off, or somebody has acknowledged it. So does a component that was taken out for
good. What comes later counts again.

Say which failures are meant. --seen takes the IDs that "nodemend hardware describe"
shows: what has come since then is not acknowledged. --component, --kind and --what
take the words that it shows. --until takes the failures whose last SEL record is that
one or came before it. A failure has to match all that is given. --all takes all.

Each failure that is acknowledged is printed. --dry-run prints them, and acknowledges
nothing. The reason is shown wherever the failure is. The detector looks again at once.

Exit status: 0 if something was acknowledged, 3 if there is no such failure.`

// lastRecord returns up to which SEL record failures are meant.
func lastRecord(which *ack.Selection) (uint16, error) {
	if !which.Given("until") {
		return verdict.All, nil
	}
	return parseRecord(which.Until)
}

// meant reports whether f is, whatever its record is.
func meant(which *ack.Selection, f verdict.Failure) bool {
	oneOf := func(accepted []string, words ...string) bool {
		return len(accepted) == 0 || slices.ContainsFunc(accepted, func(a string) bool {
			return slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(strings.TrimSpace(a), word) })
		})
	}
	whats := make([]string, 0, len(which.Whats))
	for _, what := range which.Whats {
		whats = append(whats, verdict.WithoutReading(strings.TrimSpace(what)))
	}
	return oneOf(which.Seen, f.ID) && oneOf(which.Kinds, string(f.Kind)) && oneOf(which.Components, f.Component) && oneOf(whats, f.What)
}

func newHardwareAckCommand(f *hardwareFlags) *cobra.Command {
	var which ack.Selection
	var reason, by string
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "ack --reason TEXT",
		Short:   "Acknowledge failures, so that they do not count any more",
		Long:    hardwareAckHelp,
		Example: hardwareExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return usageError{errors.New("no reason given; say with --reason why the failure does not count")}
			}
			if err := which.Check("nodemend hardware describe"); err != nil {
				return usageError{err}
			}
			record, err := lastRecord(&which)
			if err != nil {
				return usageError{err}
			}
			if by == "" {
				by = userName()
			}
			c, err := f.load()
			if err != nil {
				return err
			}
			a := acknowledging{which: &which, record: record, reason: reason, by: by, dryRun: dryRun}
			done, err := a.of(c.Checks.Hardware)
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, failure := range done {
				fmt.Fprintf(&text, "%s %s %s\n", map[bool]string{false: "acknowledged", true: "would acknowledge"}[dryRun], failure.Kind, cell(failure.String()))
			}
			if !dryRun {
				next := "the detector looks again now"
				if err := demand.Send(cmd.Context(), c.Socket); err != nil {
					next = fmt.Sprintf("the detector looks again when it runs the next time (%v)", err)
				}
				fmt.Fprintf(&text, "by %s; %s\n", by, next)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text.String())
			return err
		},
	}
	cmd.SetFlagErrorFunc(wrongFlag)
	flags := cmd.Flags()
	which.AddTo(flags)
	flags.StringVar(&reason, "reason", "", "why it does not count (required)")
	flags.StringVar(&by, "by", "", "who says so (default: the user)")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be acknowledged, and acknowledge nothing")
	return cmd
}

// acknowledging is what a person has asked for.
type acknowledging struct {
	which      *ack.Selection
	record     uint16
	reason, by string
	dryRun     bool
}

// of notes in the store that failures do not count, and returns them. It is a noFailureError
// if there is none to be acknowledged.
func (a acknowledging) of(c config.Hardware) (done []verdict.Failure, err error) {
	var modules []ipmi.Module
	if machine, err := hardware.Machine(c); err == nil { // else some parts are named less well
		modules = machine.Modules
	}
	store := hardware.Store{Path: c.StateFile}
	var refused error
	change := func(s verdict.State) verdict.State {
		var next verdict.State
		if next, done, refused = a.in(s, c.Rules, modules); refused != nil {
			return s
		}
		return next
	}
	if a.dryRun {
		var s verdict.State
		if s, err = store.Load(); err == nil {
			change(s)
		}
	} else {
		err = store.Update(change)
	}
	return done, errors.Join(err, refused)
}

// in returns a state with what is acknowledged in it.
func (a acknowledging) in(s verdict.State, rules verdict.Rules, modules []ipmi.Module) (next verdict.State, done []verdict.Failure, err error) {
	known := s.Known(rules, modules)
	for _, id := range a.which.Seen {
		if !slices.ContainsFunc(known, func(f verdict.Failure) bool { return strings.EqualFold(f.ID, strings.TrimSpace(id)) }) {
			return s, nil, noFailureError{fmt.Errorf("nothing was acknowledged: the failure %s is over, has come again, or is acknowledged, or the detector has not seen it yet%s",
				cell(id), others(known))}
		}
	}
	if a.which.All {
		next = s.Acknowledge(verdict.All, a.reason, a.by, time.Now())
	} else {
		var ids []string
		for _, f := range known {
			if meant(a.which, f) {
				ids = append(ids, f.ID)
			}
		}
		next = s.AcknowledgeOnly(ids, a.record, a.reason, a.by, time.Now())
	}
	left := next.Known(rules, modules)
	done = slices.DeleteFunc(slices.Clone(known), func(f verdict.Failure) bool {
		return slices.ContainsFunc(left, func(other verdict.Failure) bool { return other.ID == f.ID })
	})
	if len(done) == 0 {
		return s, nil, noFailureError{fmt.Errorf("nothing was acknowledged: the detector knows of no such failure that is not acknowledged yet%s", others(known))}
	}
	return next, done, nil
}

// others tells what else could be acknowledged.
func others(known []verdict.Failure) string {
	const most = 5
	if len(known) == 0 {
		return "; if one has just come up, wait for the detector's next look at the BMC"
	}
	var all []string
	for _, f := range known[:min(most, len(known))] {
		all = append(all, fmt.Sprintf("%s %s (--seen %s)", f.Kind, cell(f.String()), f.ID))
	}
	if len(known) > most {
		all = append(all, fmt.Sprintf("and %d more", len(known)-most))
	}
	return "; it knows of " + strings.Join(all, ", ")
}

// parseRecord reads the ID of a SEL record, in hexadecimal as it is shown, with or
// without 0x.
func parseRecord(text string) (uint16, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 16)
	if err != nil || id == 0 || id == uint64(verdict.All) {
		return 0, fmt.Errorf("--until=%s is not the ID of a SEL record, such as 0x1a", text)
	}
	return uint16(id), nil
}

// userName is who runs the program, also behind sudo.
func userName() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
