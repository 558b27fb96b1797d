package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/ipmi/verdict"
)

const hardwareDescribeHelp = `Describe what is wrong with the hardware of this server, to be pasted into a ticket:
each part, what its sensor and the System Event Log (SEL) say of it in words and in
raw bytes, since when, by which rule it counts, and how to acknowledge it.

Nothing is changed. "kubectl nodemend hardware describe NODE" shows the same.`

// What a ticket has at most: it has to fit into one.
const (
	maxDescribed = 10 // failures
	maxRecords   = 6  // of each, the newest
)

func newHardwareDescribeCommand(f *hardwareFlags) *cobra.Command {
	timeout := 2 * time.Minute
	cmd := &cobra.Command{
		Use:     "describe",
		Short:   "Describe what is wrong, for a ticket",
		Long:    hardwareDescribeHelp,
		Example: hardwareExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.load()
			if err != nil {
				return err
			}
			node, err := nodeName("")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			report, err := inspect(ctx, c.Checks.Hardware, node)
			if err != nil {
				return unknownError{err}
			}
			rules := slices.Concat(c.Checks.Hardware.Rules, verdict.DefaultRules())
			_, err = io.WriteString(cmd.OutOrStdout(), describeHardware(report, rules))
			return err
		},
	}
	cmd.SetFlagErrorFunc(wrongFlag)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the BMC is given")
	return cmd
}

// describeHardware writes a ticket.
func describeHardware(report hardwareReport, rules verdict.Rules) string {
	var text strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&text, "%-9s %s\n", name, cell(fmt.Sprintf(format, args...)))
	}
	if server := report.Server.String(); server != "" {
		line("SERVER", "%s", server)
	}
	if bmc := report.BMC; bmc.Firmware == "" {
		line("BMC", "read by %s", report.Source)
	} else if bmc.IPMIVersion == "" {
		line("BMC", "%s", strings.TrimSpace(fmt.Sprintf("%s firmware %s, read by %s", bmc.Name, bmc.Firmware, report.Source)))
	} else {
		line("BMC", "%s", strings.TrimSpace(fmt.Sprintf("%s firmware %s, IPMI %s, manufacturer %d, product %d, read by %s",
			bmc.Name, bmc.Firmware, bmc.IPMIVersion, bmc.Manufacturer, bmc.Product, report.Source)))
	}
	line("VERDICT", "%s: %s", report.Verdict.Status, report.Verdict.Reason)
	if report.Verdict.Status == verdict.CannotTell {
		line("WHY", "%s", report.Verdict.Message)
	}
	for _, problem := range report.Errors {
		line("ERROR", "%s", problem)
	}
	for _, p := range report.Server.Processors {
		line("CPU", "%s", p)
	}
	for _, p := range report.Server.Supplies {
		line("SUPPLY", "%s", p)
	}
	for i, f := range report.Verdict.Failures {
		if i == maxDescribed {
			fmt.Fprintf(&text, "\nand %d more: nodemend hardware status\n", len(report.Verdict.Failures)-i)
			break
		}
		fmt.Fprintf(&text, "\n%d. %s: %s\n", i+1, cell(f.Component), cell(f.What))
		line("counts", "%s", counts(f))
		line("kind", "%s", f.Kind)
		if f.Module != nil {
			line("module", "%s: %s", f.Module.Locator, f.Module)
		}
		if f.Identity != nil {
			line("part", "%s", f.Identity)
		}
		if f.Path != "" {
			line("resource", "%s %s", f.Path, f.Said)
		}
		for i, m := range f.Candidates {
			if i == maxRecords {
				line("or", "one of %d more modules", len(f.Candidates)-i)
				break
			}
			line("may be", "%s", verdict.Slot(m))
		}
		line("since", "%s", f.Since.UTC().Format(time.RFC3339))
		line("rule", "%s", ruleOf(f, rules))
		report.describeSensor(line, f)
		report.describeRecords(line, f)
		if f.Acknowledged == nil {
			line("ack", "--seen %s", f.ID)
		}
	}
	return text.String()
}

// counts says whether a failure takes the server out.
func counts(f verdict.Failure) string {
	switch {
	case f.Acknowledged != nil:
		return fmt.Sprintf("no: acknowledged by %s at %s: %s", f.Acknowledged.By, f.Acknowledged.At.UTC().Format(time.RFC3339), f.Acknowledged.Reason)
	case f.History:
		return "no: it is only in the SEL, from before the first look at this server"
	case f.NoInput != "":
		return "no: " + f.NoInput + " has no input"
	case f.Severity != verdict.SeverityFailure:
		return "no: a warning"
	case f.Unconfirmed:
		return "not now: it was known before, and can't be seen any more"
	default:
		return "yes"
	}
}

func ruleOf(f verdict.Failure, rules verdict.Rules) string {
	i := slices.IndexFunc(rules, func(r verdict.Rule) bool { return r.Name == f.Rule })
	if i < 0 || rules[i].Why == "" {
		return f.Rule
	}
	return f.Rule + ": " + rules[i].Why
}

// describeSensor tells what the sensor shows now that a failure is about.
func (r hardwareReport) describeSensor(line func(name, format string, args ...any), f verdict.Failure) {
	if f.Path != "" {
		return // its resource has told
	}
	record, hasRecord := r.record(f)
	for _, s := range r.Sensors {
		ofRecord := hasRecord && record.SensorNumber == s.Number && record.Owner == s.Owner && record.LUN == s.LUN && record.SensorType == s.Type
		if !ofRecord && f.Source != "sensor "+s.Name {
			continue
		}
		line("sensor", "0x%02x %s, %s: %s %s", s.Number, s.Name, s.TypeName, s.shown(), strings.Join(s.StateNames, ", "))
		return
	}
}

// record returns the event that a failure names.
func (r hardwareReport) record(f verdict.Failure) (shownEvent, bool) {
	i := slices.IndexFunc(r.Events, func(e shownEvent) bool { return f.Record != 0 && e.ID == f.Record })
	if i < 0 {
		return shownEvent{}, false
	}
	return r.Events[i], true
}

// describeRecords lists the newest records of the sensor that a failure is about.
func (r hardwareReport) describeRecords(line func(name, format string, args ...any), f verdict.Failure) {
	record, ok := r.record(f)
	var of []shownEvent
	for _, e := range r.Events {
		sameSensor := ok && e.SensorType == record.SensorType && e.SensorNumber == record.SensorNumber && e.Owner == record.Owner && e.LUN == record.LUN && e.EventType == record.EventType && e.Path == record.Path
		if sameSensor || !ok && e.SensorName != "" && f.Source == "sensor "+e.SensorName {
			of = append(of, e)
		}
	}
	if before := len(of) - maxRecords; before > 0 {
		line("SEL", "%d older records", before)
		of = of[before:]
	}
	for _, e := range of {
		if e.Message != "" {
			line("log", "0x%02x %s, %s", e.ID, e.at(), e.Message)
			continue
		}
		line("SEL", "0x%02x %s, %s, raw %s", e.ID, e.at(), strings.TrimSpace(e.StateName+" "+e.direction()), e.Raw)
	}
}
