package ipmitool

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodemend/nodemend/ipmi"
)

var _ ipmi.Source = (*Source)(nil)

// Source reads a BMC through ipmitool. Its methods are not safe for concurrent use.
type Source struct {
	options Options
	program string
	seen    *seen // of the SEL; nil if the next call can't rely on it
}

// New returns a source; it does not run ipmitool yet. The error is ErrNoProgram if it is
// not installed.
func New(o Options) (*Source, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	program, err := o.program()
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Source{options: o, program: program}, nil
}

// String returns "ipmitool", with the BMC's address if it is not that of this machine.
func (s *Source) String() string { return s.options.name() }

// Close does nothing: every run of ipmitool has a session of its own.
func (s *Source) Close() error { return nil }

// DeviceID identifies the BMC. For its name all SDRs are read.
func (s *Source) DeviceID(ctx context.Context) (ipmi.DeviceID, error) {
	commands := []string{"mc info", "sdr elist mcloc"}
	out, err := s.run(ctx, true, commands...)
	if err != nil {
		return ipmi.DeviceID{}, err
	}
	id, err := parseMCInfo(out.sections[0])
	if err != nil {
		return ipmi.DeviceID{}, s.errorf(commands, failure(err, out.stderr))
	}
	id.Name = parseBMCName(out.sections[1])
	return id, nil
}

// Chassis returns the state of the chassis, and why the system was last started
// unless the BMC refuses to tell.
func (s *Source) Chassis(ctx context.Context) (ipmi.Chassis, error) {
	commands := []string{"chassis status", "chassis restart_cause"}
	out, err := s.run(ctx, true, commands...)
	if err != nil {
		return ipmi.Chassis{}, err
	}
	chassis, err := parseChassis(out.sections[0])
	if err != nil {
		return ipmi.Chassis{}, s.errorf(commands, failure(err, out.stderr))
	}
	// Else the BMC has not refused, but not answered.
	if strings.Contains(out.stderr, "Unable to get Chassis Restart Cause") {
		return ipmi.Chassis{}, s.errorf(commands, failure(ErrIncomplete, out.stderr))
	}
	chassis.RestartCause = parseRestartCause(out.sections[1])
	return chassis, nil
}

// Sensors returns all sensors with their present state.
func (s *Source) Sensors(ctx context.Context) ([]ipmi.Sensor, error) {
	commands := []string{verbose, "sdr list"}
	out, err := s.run(ctx, false, commands...)
	if err != nil {
		return nil, err
	}
	if complaint := truncated(out.stderr); complaint != "" {
		return nil, s.errorf(commands, fmt.Errorf("%w: %s", ErrIncomplete, complaint))
	}
	sensors, err := parseSensors(out.sections[1])
	if err != nil {
		return nil, s.errorf(commands, err)
	}
	return sensors, nil
}

// verbose makes the commands after it write records of several lines. Unlike the option
// -v it adds nothing else.
const verbose = "set verbose 1"
