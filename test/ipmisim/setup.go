package ipmisim

import (
	"fmt"
	"strings"
)

// Name is that of the BMC.
const Name = "node-bmc"

// User may do everything over LAN; the password is in Simulator.PasswordFile.
const (
	User     = "ipmiusr"
	password = "test"
)

// Operator has the privilege level operator, and the same password.
const Operator = "operator"

// Reader has the privilege level user, and the same password.
const Reader = "reader"

// GUID is the System GUID that the BMC of Start sends over LAN, in this order of its bytes.
const GUID = "a1234567-89ab-cdef-a123-456789abcdef"

// ports are those of the simulator, all on 127.0.0.1: its LAN is UDP.
type ports struct{ lan, console, system int }

// lanConfig is the file of ipmi_lan(5).
func lanConfig(p ports, guid, powerControl string) string {
	return fmt.Sprintf(`name "node"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %d
    priv_limit admin
    allowed_auths_admin none md5
    guid %s
  endlan
  chassis_control %q
  serial 15 127.0.0.1 %d codec VM
  user 1 false "" "" user 10 none md5
  user 2 true %q %q admin 10 md5
  user 3 true %q %q operator 10 md5
  user 4 true %q %q user 10 md5
console 127.0.0.1 %d
`, p.lan, strings.ReplaceAll(guid, "-", ""), powerControl, p.system,
		User, password, Operator, password, Reader, password, p.console)
}

// powerControl is a shell script that the simulator runs to read and switch the
// power, which is a file beside it. It says so to a machine that is attached.
const powerControl = `#!/bin/sh
power="${0%/*}/power"
switches="${0%/*}/switches"
case "$1 $2" in
"get power") read -r on <"$power" && echo "power:$on" ;;
"set power") echo "$3" >"$power" ;;
"set reset") ;;
"set shutdown") echo asked >>"${0%/*}/shutdown" ;;
"set identify") echo "$3 $4" >"${0%/*}/identify" ;;
*) exit 1 ;;
esac
if [ "$1" = set ] && [ -p "$switches" ]; then
	echo "$2 $3" >"$switches"
fi
`

// commands is the file of ipmi_sim_cmd(5) that sets up the BMC and its sensors.
func commands() string {
	const (
		// chassis, SEL, SDR repository, sensors and events
		support      = "0x9f"
		manufacturer = "0x1291"
		product      = "0xf02"
		selRecords   = 1000
		// delete and reserve
		selFlags = "0x0a"
	)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("mc_setbmc 0x20")
	line("mc_add 0x20 0x20 no-device-sdrs 1 2 0x14 %s %s %s", support, manufacturer, product)
	line("sel_enable 0x20 %d %s", selRecords, selFlags)
	line("main_sdr_add 0x20 %s", hexBytes(locatorRecord()))
	// The simulator expects its watchdog at 0.
	line("sensor_add 0x20 0 %d 0x23 0x6f event-only", Watchdog)
	line("sensor_set_event_support 0x20 0 %d enable scanning per-state %s", Watchdog,
		"000000100001111 000000000000000 000000100001111 000000000000000")
	line("main_sdr_add 0x20 %s", hexBytes(watchdogRecord()))
	for _, s := range sensors() {
		line("sensor_add 0x20 0 %d %#x %#x", s.number, s.kind, s.eventType)
		line("%s", s.scanning(true))
		if a := s.analog; a != nil {
			line("sensor_set_value 0x20 0 %d %d 0", s.number, s.healthy)
			line("sensor_set_threshold 0x20 0 %d settable %06b %s", s.number, a.has(), hexBytes(a.limitsFromTop()))
		} else {
			line("sensor_set_bit 0x20 0 %d %d 1 0", s.number, s.healthy)
		}
		line("main_sdr_add 0x20 %s", hexBytes(s.record()))
	}
	line("mc_enable 0x20")
	return b.String()
}

// scanning returns the command that makes the BMC scan the sensor and log all its
// events, or neither.
func (s sensor) scanning(enabled bool) string {
	setting := "enable scanning"
	if !enabled {
		setting = "disable no-scanning"
	}
	return fmt.Sprintf("sensor_set_event_support 0x20 0 %d %s per-state %015[3]b %015[3]b %015[3]b %015[3]b",
		s.number, setting, s.events())
}

func hexBytes(data []byte) string {
	return fmt.Sprintf("% #x", data)
}
