//go:build e2e

package vm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/vm"
	"github.com/nodemend/nodemend/test/vm/vmtest"
)

// moment is how long a short script may take, where others are busy.
const moment = time.Minute

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// run runs a script that must succeed, within a moment.
func run(t *testing.T, m *vm.Machine, script string) string {
	t.Helper()
	output, err := m.Run(within(t, moment), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(output)
}

// waitUp waits for a boot.
func waitUp(t *testing.T, m *vm.Machine, boots int) {
	t.Helper()
	begin := time.Now()
	if err := m.WaitUp(within(t, vmtest.BootTime), boots); err != nil {
		t.Fatal(err)
	}
	t.Logf("boot %d took %s", boots, time.Since(begin).Round(time.Millisecond))
	ids := m.Boots()
	if len(ids) != boots || boots > 1 && ids[boots-1] == ids[boots-2] {
		t.Fatalf("the boot IDs are %q, want %d", ids, boots)
	}
	if got := run(t, m, "cat /proc/sys/kernel/random/boot_id"); got != ids[boots-1] {
		t.Fatalf("the boot ID is %s, the agent has said %q", got, ids)
	}
}

// must ends the test if what switches the machine has failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Boot: 5 minutes. Every script: 1 minute.
func TestAMachineHasASystemdAndANetworkOfItsOwn(t *testing.T) {
	const greeting = "all is well"
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, greeting)
	}))
	defer host.Close()
	m := vmtest.Start(t, vm.Options{
		Files: map[string]vm.File{
			"/srv/greeting":     {Content: greeting},
			"/srv/serve":        {Content: "#!/bin/sh\nexec busybox httpd -f -p 8080 -h /srv\n", Mode: 0o755},
			"/srv/own/programs": {From: "/usr/bin/env", Mode: 0o700},
		},
		Units:    map[string]string{"serve.service": "[Service]\nExecStart=/srv/serve\n"},
		Forwards: []int{8080},
	})

	if got := run(t, m, "cat /proc/1/comm; systemctl is-system-running; systemctl is-active serve.service"); got != "systemd\nrunning\nactive" {
		t.Errorf("process 1, its state and that of the unit are %q", got)
	}
	if got := run(t, m, "stat -c %a /srv/own/programs"); got != "700" {
		t.Errorf("the mode of a file is %s, want 700", got)
	}
	if got := run(t, m, "cat /sys/devices/system/clocksource/clocksource0/current_clocksource"); got != "hpet" {
		t.Errorf("its clock goes by %s, which may go wrong on a busy machine, want hpet", got)
	}
	own, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || strings.TrimSpace(string(own)) == m.Boots()[0] {
		t.Errorf("the boot ID is that of this machine: %s, %v", own, err)
	}

	response, err := http.Get("http://" + m.Address(8080) + "/greeting")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // was only read
	if body, err := io.ReadAll(response.Body); string(body) != greeting {
		t.Errorf("the unit serves %q, %v", body, err)
	}

	fetch := "timeout 5 wget -q -O - " + strings.Replace(host.URL, "127.0.0.1", vm.HostAddress, 1)
	if got := run(t, m, fetch); got != greeting {
		t.Errorf("from this machine it gets %q", got)
	}
	if _, err := m.Run(within(t, moment), "ping -c 1 -W 2 192.0.2.1"); err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("it knows a way to other machines: %v", err)
	}
	must(t, m.SetLink(within(t, moment), false))
	if got, err := m.Run(within(t, moment), fetch); err == nil {
		t.Errorf("without a cable it gets %q", got)
	}
	must(t, m.SetLink(within(t, moment), true))
	run(t, m, "until "+fetch+"; do sleep 0.1; done")
}

// Boot: 5 minutes. Every script: 1 minute.
func TestTheBMCIsSeenAlikeByNodemendAndByIpmitool(t *testing.T) {
	nodemend, err := filepath.Abs("../../bin/nodemend")
	must(t, err)
	if _, err := os.Stat(nodemend); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	bmc := ipmisim.Start(t)
	m := vmtest.Start(t, vm.Options{
		Files: map[string]vm.File{"/usr/bin/nodemend": {From: nodemend, Mode: 0o755}},
		BMC:   bmc,
	})
	// The first bytes of Get Device ID.
	if got := run(t, m, "ipmitool raw 6 1"); !strings.HasPrefix(got, "20 01 02 14 02") {
		t.Errorf("the BMC is %s", got)
	}
	const status, sensors = "nodemend hardware status", "ipmitool sdr elist"
	run(t, m, status)
	if got := run(t, m, sensors); strings.Contains(got, "Failure") {
		t.Errorf("at first ipmitool sees %s", got)
	}
	bmc.SetSensorBit(ipmisim.PSU1Status, 1, true)
	if got, err := m.Run(within(t, moment), status); err == nil || !strings.Contains(got, "PSU1 Status") {
		t.Errorf("with a broken power supply nodemend sees %s, %v", got, err)
	}
	if got := run(t, m, sensors); !strings.Contains(got, "10.1 | Presence detected, Failure detected") {
		t.Errorf("with a broken power supply ipmitool sees %s", got)
	}
	bmc.SetSensorBit(ipmisim.PSU1Status, 1, false)
	run(t, m, status)

	// The machine has the BMC's only connection of that kind.
	bmc.ClearSEL()
	if got := run(t, m, "ipmitool sel info"); !strings.Contains(got, "Entries          : 0") {
		t.Errorf("after it was cleared the SEL is %s", got)
	}
}

// Boot: 5 minutes, and twice more. Every script: 1 minute.
func TestAMachineIsResetFromInsideEvenIfSystemdHangs(t *testing.T) {
	m := vmtest.Start(t, vm.Options{})
	const reset = "sync; echo b >/proc/sysrq-trigger; sleep 60"
	for boot, hangs := range []bool{false, true} {
		run(t, m, "echo here >>/var/lib/kept")
		must(t, m.SetSystemdHangs(within(t, moment), hangs))
		_, err := m.Run(within(t, moment), "timeout 5 systemctl restart dbus.service")
		if (err != nil) != hangs {
			t.Fatalf("while it is %t that systemd hangs, its answer is %v", hangs, err)
		}
		if _, err := m.Run(within(t, moment), reset); !errors.Is(err, vm.ErrDown) {
			t.Fatalf("the reset: %v", err)
		}
		waitUp(t, m, boot+2)
		if got := m.Resets(); got != boot+1 {
			t.Errorf("QEMU tells of %d resets, want %d: %v", got, boot+1, m.Events())
		}
	}
	if got := run(t, m, "cat /var/lib/kept"); got != "here\nhere" {
		t.Errorf("what was written before is %q", got)
	}
}

// Boot: 5 minutes, and four times more. Power off, and every script: 1 minute.
func TestThePowerIsSwitchedByTheBMC(t *testing.T) {
	bmc := ipmisim.Start(t)
	m := vmtest.Start(t, vm.Options{BMC: bmc, PowerButton: true})
	run(t, m, "echo here >/var/lib/kept; sync")
	chassis := func(command string) {
		t.Helper()
		arguments := append(bmc.IPMITool(), "chassis", "power", command)
		if output, err := exec.CommandContext(t.Context(), "ipmitool", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("ipmitool %q: %v: %s", arguments, err, output)
		}
	}
	chassis("on") // it is
	hung := make(chan error, 1)
	go func() {
		_, err := m.Run(within(t, moment), "sleep 60")
		hung <- err
	}()
	chassis("off")
	if err := <-hung; !errors.Is(err, vm.ErrDown) {
		t.Fatalf("what ran when the power went: %v", err)
	}
	chassis("on")
	waitUp(t, m, 2)
	if got := run(t, m, "cat /var/lib/kept; ipmitool chassis power status"); got != "here\nChassis Power is on" {
		t.Errorf("what was written before, and the power, are %q", got)
	}
	if m.Resets() != 0 {
		t.Errorf("that was no reset, but QEMU tells of %v", m.Events())
	}
	chassis("reset")
	waitUp(t, m, 3)

	chassis("soft")
	until(t, "the operating system has shut down", func() (bool, string) { return !m.HasPower(), fmt.Sprint(m.Events()) })
	if read, err := bmc.SendRecv(0, 1); err != nil || read[1]&1 != 0 {
		t.Errorf("of a machine that has shut down the chassis status is % x, %v", read, err)
	}
	chassis("on")
	waitUp(t, m, 4)

	spins := func() (bool, string) {
		spins, where, err := m.Spins(within(t, moment))
		must(t, err)
		return spins, where
	}
	if spins, where := spins(); spins {
		t.Errorf("before the kernel hangs the processor spins: %s", where)
	}
	must(t, m.Hang(within(t, moment)))
	until(t, "the processor spins", spins)
	chassis("soft")
	until(t, "the button is pushed", func() (bool, string) {
		events := m.Events()
		return events[len(events)-1].Name == "POWERDOWN", fmt.Sprint(events)
	})
	if spins, where := spins(); !spins || !m.HasPower() {
		t.Errorf("a kernel that hangs heeds its power button: %s", where)
	}
	bmc.PowerOff()
	bmc.PowerOn()
	waitUp(t, m, 5)
}

// until waits for what comes in a moment.
func until(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, moment, true, func(context.Context) (ok bool, err error) {
		ok, last = done()
		return ok, nil
	})
	if err != nil {
		t.Fatalf("waited in vain until %s; seen last: %s", what, last)
	}
}
