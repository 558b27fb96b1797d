package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Hang has the kernel hang for good, with interrupts off: it overwrites, in memory, what a process
// goes through that gives up its processor, by an endless loop. Each processor comes there in a moment.
// Only a reset or a loss of power ends that.
func (m *Machine) Hang(ctx context.Context) error {
	const cli, jump, toItself = 0xfa, 0xeb, 0xfe
	symbol, err := m.Run(ctx, `sed -n 's/ T schedule$//p' /proc/kallsyms`)
	if err != nil {
		return err
	}
	address, err := strconv.ParseUint(strings.TrimSpace(symbol), 16, 64)
	if err != nil {
		return fmt.Errorf("the kernel's symbol schedule: %w", err)
	}
	if err := m.Pause(ctx); err != nil {
		return err
	}
	if err := m.poke(ctx, address, []byte{cli, jump, toItself}); err != nil {
		return errors.Join(fmt.Errorf("having the kernel hang: %w", err), m.Resume(ctx))
	}
	m.change(func() { m.loop = address + 1 })
	return m.Resume(ctx)
}

// registers are those of a processor, as QEMU's monitor shows them.
var registers = regexp.MustCompile(`RIP=([0-9a-f]+) RFL=([0-9a-f]+) .*CPL=(\d) .*HLT=(\d)`)

// Spins reports whether QEMU runs the machine, and each of its processors is in the loop of Hang,
// with interrupts off. The text says where they are.
func (m *Machine) Spins(ctx context.Context) (bool, string, error) {
	answer, err := m.monitor.run(ctx, "query-status", nil)
	if err != nil {
		return false, "", err
	}
	var status struct{ Running bool }
	if err := json.Unmarshal(answer, &status); err != nil {
		return false, "", err
	}
	text, err := m.tellMonitor(ctx, "info registers -a")
	if err != nil {
		return false, "", err
	}
	m.mu.Lock()
	loop := m.loop
	m.mu.Unlock()
	all := registers.FindAllStringSubmatch(text, -1)
	spins := status.Running && len(all) > 0 && len(all) == strings.Count(text, "CPU#")
	said := fmt.Sprintf("running %t", status.Running)
	for _, r := range all {
		at, atErr := strconv.ParseUint(r[1], 16, 64)
		flags, flagsErr := strconv.ParseUint(r[2], 16, 64)
		if err := errors.Join(atErr, flagsErr); err != nil {
			return false, "", err
		}
		const interrupts = 1 << 9
		spins = spins && at == loop && flags&interrupts == 0 && r[3] == "0" && r[4] == "0"
		said += "; " + r[0]
	}
	return spins, said, nil
}

// tellMonitor has QEMU carry out a command of its monitor for people, and returns what that says.
func (m *Machine) tellMonitor(ctx context.Context, command string) (string, error) {
	answer, err := m.monitor.run(ctx, "human-monitor-command", map[string]string{"command-line": command})
	if err != nil {
		return "", err
	}
	var text string
	err = json.Unmarshal(answer, &text)
	return text, err
}
