package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nodemend/nodemend/test/redfish"
)

func TestTheEvidenceOfRedfishIsShown(t *testing.T) {
	dir := t.TempDir()
	s := redfish.Start(t)
	s.Mockup("dell")
	m := &machine{t: t}
	m.config = m.write(filepath.Join(dir, "detector.yaml"), fmt.Sprintf(
		"socket: %s\nstateFile: ''\nchecks: {hardware: {smbios: '', source: redfish, stateFile: %s, redfish: {url: '%s', user: %s, passwordFile: %s, caFile: %s, trustAddress: true}}}\n",
		filepath.Join(dir, "detector.sock"), filepath.Join(dir, "hardware.json"), s.URL(), redfish.User, s.PasswordFile(), s.CAFile()))
	m.expect(0, []string{"healthy", "DIMM A1", "Log cleared.", "14G Monolithic firmware 6.10.30.00"}, "hardware", "status")

	s.Change("/redfish/v1/Systems/System.Embedded.1/Memory/DIMM.Socket.A1", "Status.Health", "Critical")
	m.expect(1, []string{"DIMM A1: health Critical"}, "hardware", "status")
	m.expect(0, []string{
		"BMC       14G Monolithic firmware 6.10.30.00, read by redfish at 127.0.0.1:",
		"1. DIMM A1: health Critical\n",
		"part      Samsung M393A4K40DB3-CWE, serial 0351A4B0\n",
		`resource  /redfish/v1/Systems/System.Embedded.1/Memory/DIMM.Socket.A1 {"State":"Enabled","Health":"Critical"}`,
		"rule      memory-critical: so says the sensor's maker",
	}, "hardware", "describe")

	s.Put("/redfish/v1/Systems/System.Embedded.1", nil)
	m.expect(2, []string{"HTTP 404"}, "hardware", "status")
}
