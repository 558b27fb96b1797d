package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/hardware"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/internal/smbios"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

const hardwareStatusHelp = `Show what is wrong with the hardware of this server, its sensors, and its System
Event Log (SEL), decoded.

Nothing is changed: neither the BMC nor what the detector remembers.

Exit status: 0 if nothing is wrong, 1 if there is a failure, 2 if that could not
be told.`

// hardwareReport is what is shown of a server.
type hardwareReport struct {
	Source string `json:"source"`
	// Server is what its firmware tells.
	Server  smbios.Machine  `json:"server"`
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

// shown returns the reading of a sensor.
func (s shownSensor) shown() string {
	switch {
	case !s.Available:
		return "not available"
	case s.Reading != nil:
		return strings.TrimSpace(strconv.FormatFloat(*s.Reading, 'f', -1, 64) + " " + s.Unit)
	default:
		return "-"
	}
}

// at returns when it was logged.
func (e shownEvent) at() string {
	if e.Time.IsZero() {
		return "Pre-Init"
	}
	return e.Time.UTC().Format(time.RFC3339)
}

// direction says of an event of a sensor whether a state began or ended.
func (e shownEvent) direction() string {
	if e.Asserted {
		return "Asserted"
	}
	return "Deasserted"
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
			node, err := nodeName("")
			if err != nil {
				return err
			}
			report, err := inspect(ctx, c.Checks.Hardware, node)
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
	cmd.SetFlagErrorFunc(wrongFlag)
	cmd.Flags().StringVarP(&output, "output", "o", output, "`form` of what is printed: table or json")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the BMC is given")
	return cmd
}

// inspect reads everything, and judges it by what the detector remembers.
func inspect(ctx context.Context, c config.Hardware, node string) (report hardwareReport, err error) {
	source, err := hardware.Open(c, node)
	if err != nil {
		return report, err
	}
	defer func() { _ = source.Close() }() // was only read
	state, err := hardware.Store{Path: c.StateFile}.Load()
	report.failed("what the detector remembers", err)
	bootID, err := boot.ID(boot.IDPath)
	report.failed("boot ID", err)
	report.Source, report.Sensors, report.Events = source.String(), []shownSensor{}, []shownEvent{}
	report.Server, err = hardware.Machine(c)
	report.failed("SMBIOS", err)
	report.BMC, err = source.DeviceID(ctx)
	report.failed("device ID", err)
	in := hardware.Read(ctx, source, state, bootID, clock.RealClock{})
	in.Modules = report.Server.Modules
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
		if e.OfSensor() {
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
	if server := report.Server.String(); server != "" {
		fmt.Fprintf(&text, "SERVER\t%s\n", cell(server))
	}
	bmc := "read by " + report.Source
	if report.BMC.Firmware != "" {
		bmc = strings.TrimSpace(fmt.Sprintf("%s firmware %s, %s", report.BMC.Name, report.BMC.Firmware, bmc))
	}
	fmt.Fprintf(&text, "BMC\t%s\n", cell(bmc))
	if report.Chassis != nil {
		fmt.Fprintf(&text, "POWER\t%s\n", map[bool]string{true: "on", false: "off"}[report.Chassis.PowerOn])
	}
	fmt.Fprintf(&text, "VERDICT\t%s\t%s\n", report.Verdict.Status, cell(report.Verdict.Message))
	for _, problem := range report.Errors {
		fmt.Fprintf(&text, "ERROR\t%s\n", cell(problem))
	}
	if len(report.Verdict.Failures) > 0 {
		text.WriteString("\nSEVERITY\tCOMPONENT\tWHAT\tSINCE\tSOURCE\tACKNOWLEDGED\n")
	}
	for _, f := range report.Verdict.Failures {
		acknowledged := ""
		if f.Acknowledged != nil {
			acknowledged = fmt.Sprintf("by %s: %s", f.Acknowledged.By, f.Acknowledged.Reason)
		} else if f.History {
			acknowledged = "(from before the first look)"
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Severity, cell(f.Component), cell(f.What), f.Since.UTC().Format(time.RFC3339), f.Source, cell(acknowledged))
	}
	text.WriteString("\nSENSOR\tTYPE\tREADING\tSTATES\n")
	for _, s := range report.Sensors {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\n", cell(s.Name), s.TypeName, s.shown(), strings.Join(s.StateNames, ", "))
	}
	text.WriteString("\nSEL\tTIME\tSENSOR\tEVENT\tDIRECTION\tDATA\n")
	for _, e := range report.Events {
		sensor, event, direction, data := fmt.Sprintf("record of type 0x%02x", e.RecordType), "", "", ""
		if e.TypeName != "" {
			sensor, event, direction, data = fmt.Sprintf("%s %s", e.TypeName, e.SensorName), e.StateName, e.direction(), e.Data.String()
			if e.SensorName == "" {
				sensor = fmt.Sprintf("%s #0x%02x", e.TypeName, e.SensorNumber)
			}
			if e.SensorName == "" && e.Owner&1 != 0 {
				sensor += fmt.Sprintf(" of software 0x%02x", e.Owner)
			}
		}
		if e.Message != "" {
			sensor, event, data = "entry", cell(e.Message), ""
		}
		fmt.Fprintf(&text, "0x%02x\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.at(), cell(sensor), event, direction, data)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}
