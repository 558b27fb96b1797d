package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/bmc"
)

func TestHardwareDescribeIsATicket(t *testing.T) {
	m := newMachine(t)
	const nothing = `BMC       node-bmc firmware 2.14, IPMI 2.0, manufacturer 343, product 4660, read by ipmitool
VERDICT   healthy: HardwareHealthy
`
	if got := m.expect(0, nil, "hardware", "describe"); got != nothing {
		t.Errorf("printed\n%s\nwant\n%s", got, nothing)
	}
	m.see(0)
	before := m.state()
	m.loseData()
	if err := m.Assert(3, 1, true); err != nil {
		t.Fatal(err)
	}
	const broken = `BMC       node-bmc firmware 2.14, IPMI 2.0, manufacturer 343, product 4660, read by ipmitool
VERDICT   failed: MultipleFailures

1. DIMM_A1: uncorrectable ECC
counts    yes
kind      Memory
since     2026-11-21T05:48:33Z
rule      memory-uncorrectable-ecc: lost data, and will lose more
sensor    0x04 DIMM_A1, Memory: - Presence Detected
SEL       0x01 2026-11-21T05:48:33Z, Uncorrectable ECC Asserted, raw 010002b130016b2000040c046f01ffff
SEL       0x02 2026-11-21T05:48:33Z, Uncorrectable ECC Deasserted, raw 020002b130016b2000040c04ef01ffff
ack       --seen ID

2. PSU1: failure detected
counts    yes
kind      PowerSupply
since     2026-11-21T05:48:33Z
rule      power-supply-failed: broken: replace it before the next one fails. Where that may wait, use whileRedundant
sensor    0x03 PSU1 Status, Power Supply: - Presence detected, Failure detected
SEL       0x03 2026-11-21T05:48:33Z, Failure detected Asserted, raw 030002b130016b20000408036f01ffff
ack       --seen ID
`
	ids := regexp.MustCompile(`seen [0-9a-f]{8}\n`)
	if got := ids.ReplaceAllString(m.expect(0, nil, "hardware", "describe"), "seen ID\n"); got != broken {
		t.Errorf("printed\n%s\nwant\n%s", got, broken)
	}
	if after := m.state(); after != before {
		t.Errorf("it has written to the state: %s", after)
	}
	m.see(1)
	m.expect(0, nil, "hardware", "ack", "--reason", "known", "--by", "alice", "--all")
	m.expect(0, []string{"counts    no: acknowledged by alice at 2"}, "hardware", "describe")
}

func TestHardwareDescribeFitsIntoATicket(t *testing.T) {
	m := newMachine(t)
	m.see(0)
	for number := range uint8(40) {
		for range 40 {
			m.Log(bmc.Event{Generator: 0x33, Type: 0x0c, Number: 100 + number, Data: [3]uint8{1, 0xff, 0xff}})
		}
	}
	text := m.expect(0, []string{"34 older records", "and 30 more: nodemend hardware status"}, "hardware", "describe")
	if most := 16 << 10; len(text) > most || strings.Count(text, "\n") > 150 {
		t.Errorf("%d bytes, more than %d, or too many lines:\n%s", len(text), most, text)
	}
	m.expect(2, []string{"unknown flag: --all"}, "hardware", "describe", "--all")
	m.config = m.missingFile
	m.expect(2, []string{m.missingFile}, "hardware", "describe")
}
