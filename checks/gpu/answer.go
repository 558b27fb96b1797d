package gpu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nodemend/nodemend/internal/cut"
)

// The fields that nvidia-smi is asked for, by the names that the oldest versions have, too.
const (
	fieldAddress    = "pci.bus_id"
	fieldName       = "name"
	fieldUUID       = "uuid"
	fieldSerial     = "serial"
	fieldRecovery   = "gpu_recovery_action"
	fieldErrors     = "ecc.errors.uncorrected.volatile.total"
	fieldRetirement = "retired_pages.pending"
	fieldPending    = "remapped_rows.pending"
	fieldFailed     = "remapped_rows.failure"
	fieldHot        = "clocks_throttle_reasons.hw_thermal_slowdown"
	fieldPower      = "clocks_throttle_reasons.hw_power_brake_slowdown"
)

// fields are all of them. The address is the first one.
func fields() []string {
	return []string{
		fieldAddress, fieldName, fieldUUID, fieldSerial, fieldRecovery, fieldErrors,
		fieldRetirement, fieldPending, fieldFailed, fieldHot, fieldPower,
	}
}

// answer is what nvidia-smi has said.
type answer struct {
	// rows are the values of fields, by addresses of GPUs.
	rows map[string]map[string]string
	// refusals are why it tells nothing of a GPU, by its address.
	refusals map[string]string
	// rest is what else it has said.
	rest string
	// none is whether it has found no GPU.
	none bool
	// unknown is a field that it does not know, for which it refused to answer.
	unknown string
	// untold are the fields that it does not know.
	untold []string
	// absent is whether there is no such program.
	absent bool
	// late is whether it has not answered in time, and was killed.
	late bool
	// err is why it could not be run.
	err error
}

var unknownField = regexp.MustCompile(`^Field "([^"]*)" is not a valid field to query`)

// parse reads what nvidia-smi writes when it was asked for fields, of which the address is the
// first, in the form csv,noheader. What is no line of a GPU it has said beside that.
func parse(output string, fields []string) answer {
	a := answer{rows: map[string]map[string]string{}, refusals: map[string]string{}}
	var rest []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, ",")
		address, of := addressOf(line)
		switch {
		case line == "":
		case of && len(cells) == len(fields) && onBus.FindString(cells[0]) == strings.TrimSpace(cells[0]):
			row := map[string]string{}
			for i, field := range fields {
				row[field] = cut.Valid(strings.TrimSpace(cells[i]), maxCell)
			}
			a.rows[address] = row
		case of && strings.HasPrefix(line, "Unable to determine the device handle"):
			_, why, _ := strings.Cut(line, onBus.FindString(line))
			a.refusals[address] = cut.Valid(strings.TrimLeft(why, ": "), maxCell)
		default:
			if field := unknownField.FindStringSubmatch(line); field != nil && slices.Contains(fields, field[1]) {
				a.unknown = field[1]
			}
			a.none = a.none || strings.HasPrefix(line, "No devices were found")
			rest = append(rest, line)
		}
	}
	a.rest = cut.Valid(strings.Join(rest, " "), maxRest)
	return a
}

const (
	// maxCell and maxRest are how much of what it says is told to people, in bytes.
	maxCell = 100
	maxRest = 300
)

// plain is a value without what nvidia-smi puts around those that are none.
func plain(value string) string { return strings.ToLower(strings.Trim(value, "[] ")) }

// untold is whether a value says that the GPU, or what it is divided into, does not have it.
func untold(value string) bool {
	return slices.Contains([]string{"", "n/a", "not supported", "not available", "requested functionality has been deprecated"}, plain(value))
}

// state is what the driver says of a GPU that can't be used, in the place of any value.
func state(value string) (reason string, bad bool) {
	switch value = plain(value); {
	case strings.HasPrefix(value, "gpu is lost"):
		return ReasonFellOff, true
	case strings.HasPrefix(value, "gpu requires reset"):
		return ReasonReset, true
	}
	return "", false
}

// recovery is what the driver asks for (nvmlDeviceGpuRecoveryAction_t of NVML): nvidia-smi of the
// drivers 570 to 610 is known to write None, Reset, Reboot, Drain P2P and Drain and Reset; the
// kernel's log names them otherwise. It is "" if nothing is to be done, and ReasonNotSeen for what
// is not known.
func recovery(value string) (reason string) {
	switch strings.TrimSuffix(plain(value), " required") {
	case "none":
		return ""
	case "reset", "gpu reset", "drain and reset", "bus reset", "gpu bus reset":
		return ReasonReset
	case "reboot", "node reboot", "system reboot":
		return ReasonReboot
	case "drain p2p", "recover imex domain":
		return ReasonRecovery
	}
	if untold(value) {
		return ""
	}
	return ReasonNotSeen
}

// yes is what a field says that is to say yes or no.
func yes(value string) (is, known bool) {
	switch plain(value) {
	case "yes", "1":
		return true, true
	case "no", "0":
		return false, true
	}
	return false, untold(value)
}

// problems are what is wrong with a GPU by its row, without its name, and note is what people are
// told of it otherwise.
func problems(row map[string]string) (all []finding, note string) {
	add := func(reason, format string, args ...any) {
		all = append(all, finding{Reason: reason, Text: fmt.Sprintf(format, args...)})
	}
	for _, field := range fields() {
		if reason, bad := state(row[field]); bad {
			add(reason, "its driver says: %s", strings.Trim(row[field], "[]"))
			return all, ""
		}
	}
	action := row[fieldRecovery]
	switch reason := recovery(action); reason {
	case "":
	case ReasonNotSeen:
		add(reason, "its driver asks for a recovery that is not known here: %s", action)
	default:
		add(reason, "its driver asks for a recovery: %s", action)
	}
	for _, f := range []struct{ field, reason, text string }{
		{fieldFailed, ReasonRemappingFailed, "rows of its memory that are broken could not be replaced: it is to be exchanged"},
		{fieldPending, ReasonRemappingPending, "rows of its memory are replaced when it is reset, or the node boots"},
		{fieldRetirement, ReasonRemappingPending, "pages of its memory are put out of use when it is reset, or the node boots"},
	} {
		switch is, known := yes(row[f.field]); {
		case !known:
			add(ReasonNotSeen, "%s is %s", f.field, row[f.field])
		case is:
			add(f.reason, "%s", f.text)
		}
	}
	if n := row[fieldErrors]; n != "" && n != "0" && strings.Trim(n, "0123456789") == "" {
		note = "uncorrected memory errors since it was reset: " + n
	}
	return all, note
}

// slowed is why a GPU has slowed itself down; "" if it has not.
func slowed(row map[string]string) string {
	const active = "active"
	switch {
	case plain(row[fieldHot]) == active:
		return "it is too hot"
	case plain(row[fieldPower]) == active:
		return "its power supply asks for that"
	}
	return ""
}
