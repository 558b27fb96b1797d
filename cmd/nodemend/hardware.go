package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/config/demand"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

const hardwareHelp = `Look at the hardware of this server through its BMC, as the detector's check
hardware does, and acknowledge what it has found.

The BMC is read by /dev/ipmi0, or as the detector's configuration says; give the
same file with --config.`

const hardwareStatusHelp = `Show what is wrong with the hardware of this server, its sensors, and its System
Event Log (SEL), decoded.

Nothing is changed: neither the BMC nor what the detector remembers.

Exit status: 0 if nothing is wrong, 1 if there is a failure, 2 if that could not
be told.`

const hardwareAckHelp = `Acknowledge failures, so that they do not keep the server out of service any more.

A memory or processor error is over as soon as it has happened, and what it has
proved is not: it counts until the SEL is cleared, the chassis was really powered
off, or somebody has acknowledged it. So does a component that was taken out for
good. What comes later counts again.

With --until, the failures are acknowledged whose last SEL record is that one or
came before it. Without, all are that are known now. The reason is shown wherever
the failure is. The detector looks again at once.`

const hardwareExample = `  # What is wrong?
  nodemend hardware status

  # The whole SEL, for other programs.
  nodemend hardware status -o json | jq '.events[]'

  # DIMM_A1 was exchanged while the server kept its standby power.
  nodemend hardware ack --until 0x1a --reason "DIMM A1 exchanged, ticket 4711"`

// hardwareFlags are those of all hardware commands.
type hardwareFlags struct{ configFile string }

func newHardwareCommand() *cobra.Command {
	f := &hardwareFlags{}
	cmd := &cobra.Command{
		Use:     "hardware",
		Short:   "Look at this server's hardware through its BMC",
		Long:    hardwareHelp,
		Example: hardwareExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; accepted are status and ack", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&f.configFile, "config", "",
		"YAML `file` with the detector's configuration (default: every value has a default)")
	cmd.AddCommand(newHardwareStatusCommand(f), newHardwareAckCommand(f))
	return cmd
}

// noArguments refuses any, as wrong usage.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}

func (f *hardwareFlags) load() (config.Config, error) {
	if f.configFile == "" {
		return config.Default(), nil
	}
	c, err := config.Load(f.configFile)
	if err != nil {
		return c, unknownError{err}
	}
	return c, nil
}

// hardwareReport is what is shown of a server.
type hardwareReport struct {
	Source  string          `json:"source"`
	BMC     ipmi.DeviceID   `json:"bmc"`
	Verdict verdict.Verdict `json:"verdict"`
	Chassis *ipmi.Chassis   `json:"chassis,omitempty"`
	Sensors []shownSensor   `json:"sensors"`
	Events  []shownEvent    `json:"events"`
	Errors  []string        `json:"errors,omitempty"`
}

// shownSensor and shownEvent are those of package ipmi with what they mean.
type shownSensor struct {
	ipmi.Sensor
	TypeName   string   `json:"typeName"`
	StateNames []string `json:"stateNames,omitempty"`
}

type shownEvent struct {
	ipmi.Event
	TypeName  string `json:"typeName,omitempty"`
	StateName string `json:"stateName,omitempty"`
}

func newHardwareStatusCommand(f *hardwareFlags) *cobra.Command {
	output, timeout := "table", 2*time.Minute
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show failures, sensors and the decoded event log",
		Long:    hardwareStatusHelp,
		Example: hardwareExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(io.Writer, hardwareReport) error{"table": writeHardware, "json": writeHardwareJSON}[output]
			if !ok {
				return usageError{fmt.Errorf("unknown output %q; accepted are table and json", output)}
			}
			c, err := f.load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			report, err := inspect(ctx, c.Checks.Hardware)
			if err != nil {
				return unknownError{err}
			}
			if err := write(cmd.OutOrStdout(), report); err != nil {
				return unknownError{fmt.Errorf("writing what was found: %w", err)}
			}
			switch report.Verdict.Status {
			case verdict.Healthy:
				return nil
			case verdict.Failed:
				return errors.New("the hardware has failed: " + report.Verdict.Message)
			default:
				return unknownError{errors.New("no verdict: " + report.Verdict.Message)}
			}
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.Flags().StringVarP(&output, "output", "o", output, "`form` of what is printed: table or json")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the BMC is given")
	return cmd
}

// inspect reads everything, and judges it by what the detector remembers.
func inspect(ctx context.Context, c config.Hardware) (report hardwareReport, err error) {
	source, err := hardware.Open(c)
	if err != nil {
		return report, err
	}
	defer func() { _ = source.Close() }() // was only read
	state, err := hardware.Store{Path: c.StateFile}.Load()
	report.failed("what the detector remembers", err)
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	report.failed("boot ID", err)
	report.Source, report.Sensors, report.Events = source.String(), []shownSensor{}, []shownEvent{}
	report.BMC, err = source.DeviceID(ctx)
	report.failed("device ID", err)
	in := hardware.Read(ctx, source, state, strings.TrimSpace(string(bootID)), clock.RealClock{})
	report.failed("SEL", in.LogError)
	report.failed("chassis", in.ChassisError)
	report.failed("sensors", in.SensorsError)
	report.Verdict, _ = verdict.Judge(c.Rules, state, in)
	if in.ChassisError == nil {
		report.Chassis = &in.Chassis
	}
	for _, s := range in.Sensors {
		report.Sensors = append(report.Sensors, shownSensor{s, s.Type.String(), s.StateNames()})
	}
	log, err := source.Events(ctx, ipmi.Cursor{})
	if in.LogError == nil {
		report.failed("SEL", err)
	}
	for _, e := range log.Events {
		shown := shownEvent{Event: e}
		if e.RecordType == ipmi.SystemEvent {
			shown.TypeName, shown.StateName = e.SensorType.String(), e.StateName()
		}
		report.Events = append(report.Events, shown)
	}
	return report, nil
}

// failed notes that a part could not be read, if err is not nil.
func (r *hardwareReport) failed(part string, err error) {
	if err != nil {
		r.Errors = append(r.Errors, part+": "+err.Error())
	}
}

func writeHardwareJSON(w io.Writer, report hardwareReport) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func writeHardware(w io.Writer, report hardwareReport) error {
	var text strings.Builder
	bmc := "read by " + report.Source
	if report.BMC.Firmware != "" {
		bmc = strings.TrimSpace(fmt.Sprintf("%s firmware %s, %s", report.BMC.Name, report.BMC.Firmware, bmc))
	}
	fmt.Fprintf(&text, "BMC\t%s\n", bmc)
	if report.Chassis != nil {
		fmt.Fprintf(&text, "POWER\t%s\n", map[bool]string{true: "on", false: "off"}[report.Chassis.PowerOn])
	}
	fmt.Fprintf(&text, "VERDICT\t%s\t%s\n", report.Verdict.Status, report.Verdict.Message)
	for _, problem := range report.Errors {
		fmt.Fprintf(&text, "ERROR\t%s\n", problem)
	}
	if len(report.Verdict.Failures) > 0 {
		text.WriteString("\nSEVERITY\tCOMPONENT\tWHAT\tSINCE\tSOURCE\tACKNOWLEDGED\n")
	}
	for _, f := range report.Verdict.Failures {
		acknowledged := ""
		if f.Acknowledged != nil {
			acknowledged = fmt.Sprintf("by %s: %s", f.Acknowledged.By, f.Acknowledged.Reason)
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Severity, f.Component, f.What, f.Since.UTC().Format(time.RFC3339), f.Source, acknowledged)
	}
	text.WriteString("\nSENSOR\tTYPE\tREADING\tSTATES\n")
	for _, s := range report.Sensors {
		reading := "-"
		switch {
		case !s.Available:
			reading = "not available"
		case s.Reading != nil:
			reading = strings.TrimSpace(strconv.FormatFloat(*s.Reading, 'f', -1, 64) + " " + s.Unit)
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\n", s.Name, s.TypeName, reading, strings.Join(s.StateNames, ", "))
	}
	text.WriteString("\nSEL\tTIME\tSENSOR\tEVENT\tDIRECTION\n")
	for _, e := range report.Events {
		at := "Pre-Init"
		if !e.Time.IsZero() {
			at = e.Time.UTC().Format(time.RFC3339)
		}
		sensor, event, direction := fmt.Sprintf("record of type 0x%02x", e.RecordType), "", ""
		if e.TypeName != "" {
			sensor, event, direction = fmt.Sprintf("%s %s", e.TypeName, e.SensorName), e.StateName, "Deasserted"
			if e.SensorName == "" {
				sensor = fmt.Sprintf("%s #0x%02x", e.TypeName, e.SensorNumber)
			}
			if e.Asserted {
				direction = "Asserted"
			}
		}
		fmt.Fprintf(&text, "0x%02x\t%s\t%s\t%s\t%s\n", e.ID, at, sensor, event, direction)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}

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
