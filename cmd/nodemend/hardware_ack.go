package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/internal/demand"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

const hardwareAckHelp = `Acknowledge failures, so that they do not keep the server out of service any more.

A memory or processor error is over as soon as it has happened, and what it has
proved is not: it counts until the SEL is cleared, the chassis was really powered
off, or somebody has acknowledged it. So does a component that was taken out for
good. What comes later counts again.

With --until, the failures are acknowledged whose last SEL record is that one or
came before it. Without, all are that are known now. The reason is shown wherever
the failure is. The detector looks again at once.`

func newHardwareAckCommand(f *hardwareFlags) *cobra.Command {
	var until, reason, by string
	cmd := &cobra.Command{
		Use:     "ack --reason TEXT",
		Short:   "Acknowledge failures, so that they do not count any more",
		Long:    hardwareAckHelp,
		Example: hardwareExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			record := verdict.All
			if cmd.Flags().Changed("until") {
				var err error
				if record, err = parseRecord(until); err != nil {
					return usageError{err}
				}
			}
			if strings.TrimSpace(reason) == "" {
				return usageError{errors.New("no reason given; say with --reason why the failure does not count")}
			}
			if by == "" {
				by = userName()
			}
			c, err := f.load()
			if err != nil {
				return err
			}
			if err := acknowledge(hardware.Store{Path: c.Checks.Hardware.StateFile}, record, reason, by); err != nil {
				return err
			}
			next := "the detector looks again now"
			if err := demand.Send(cmd.Context(), c.Socket); err != nil {
				next = fmt.Sprintf("the detector looks again when it runs the next time (%v)", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "acknowledged by %s; %s\n", by, next)
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := cmd.Flags()
	flags.StringVar(&until, "until", "", "`ID` of the last SEL record that is meant, such as 0x1a (default: all failures that are known)")
	flags.StringVar(&reason, "reason", "", "why it does not count (required)")
	flags.StringVar(&by, "by", "", "who says so (default: the user)")
	return cmd
}

// acknowledge notes in the store that failures do not count. It is an error if
// there is none to be acknowledged.
func acknowledge(store hardware.Store, record uint16, reason, by string) error {
	var before, after []byte
	var unusable error
	err := store.Update(func(s verdict.State) verdict.State {
		acknowledged := s.Acknowledge(record, reason, by, time.Now())
		var errs [2]error
		before, errs[0] = json.Marshal(s)
		after, errs[1] = json.Marshal(acknowledged)
		unusable = errors.Join(errs[:]...)
		return acknowledged
	})
	if err = errors.Join(err, unusable); err == nil && bytes.Equal(before, after) {
		err = errors.New("nothing was acknowledged: the detector has seen no such failure that is not acknowledged yet; " +
			`if one has just come up, have it seen first with "nodemend check hardware"`)
	}
	return err
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
