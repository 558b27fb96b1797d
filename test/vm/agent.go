package vm

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrDown is wrapped by Run's error if the machine has lost its power or was reset
// meanwhile.
var ErrDown = errors.New("the machine was reset or switched off")

// result is that of a script.
type result struct {
	status         int
	stdout, stderr string
	err            error
}

// Run runs a shell script as root, and returns what it has written to stdout; a status
// that is not 0 is an error, with what it has written to stderr. If the machine is not
// up, it waits for that. It needs neither systemd nor the network. When ctx ends the
// script may live on.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	if err := m.wait(ctx, "the machine's agent", func() bool { return m.up }); err != nil {
		return "", err
	}
	answer, err := m.ask(script)
	if err != nil {
		return "", fmt.Errorf("telling the machine's agent %q: %w", script, err)
	}
	select {
	case r := <-answer:
		if r.err == nil && r.status != 0 {
			r.err = fmt.Errorf("exit status %d: %s", r.status, strings.TrimSpace(r.stderr))
		}
		if r.err != nil {
			return r.stdout, fmt.Errorf("running %q in the machine: %w", script, r.err)
		}
		return r.stdout, nil
	case <-m.qemu.Exited:
		return "", fmt.Errorf("running %q in the machine: %w", script, m.exited())
	case <-ctx.Done():
		return "", fmt.Errorf("running %q in the machine: %w", script, ctx.Err())
	}
}

// ask sends a request, whose answer comes from the channel.
func (m *Machine) ask(script string) (<-chan result, error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	answer := make(chan result, 1)
	m.mu.Lock()
	m.number++
	number := m.number
	m.waiting[number] = answer
	m.mu.Unlock()
	_, err := fmt.Fprintf(m.port, "%d %s\n", number, base64.StdEncoding.EncodeToString([]byte(script)))
	return answer, err
}

// WaitBoot waits until the machine has booted that many times since it was started, and
// runs scripts. systemd may not have come up yet.
func (m *Machine) WaitBoot(ctx context.Context, boots int) error {
	return m.wait(ctx, fmt.Sprintf("boot %d of the machine", boots), func() bool { return m.up && len(m.boots) >= boots })
}

// WaitUp waits until the machine has booted that many times since it was started, and
// systemd has started all units, or has tried.
func (m *Machine) WaitUp(ctx context.Context, boots int) error {
	if err := m.WaitBoot(ctx, boots); err != nil {
		return err
	}
	// It can be asked as soon as its socket is there.
	_, err := m.Run(ctx, `until case $(systemctl is-system-running --wait 2>&1) in running | degraded) true ;; *) false ;; esac; do sleep 0.1; done`)
	return err
}

// readAgent reads what the agent writes, until its port is closed.
func (m *Machine) readAgent(port io.Reader) {
	input := bufio.NewReader(port)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if first == "boot" {
			m.change(func() {
				m.down()
				m.boots = append(m.boots, rest)
				m.up = true
			})
			continue
		}
		// What is none of an agent's lines was cut off by a reset.
		if number, err := strconv.Atoi(first); err == nil {
			m.change(func() { m.answer(number, parseResult(rest)) })
		}
	}
}

func parseResult(text string) result {
	fields := strings.Split(text, " ")
	if len(fields) != 3 {
		return result{err: fmt.Errorf("the agent answers %q", text)}
	}
	status, statusErr := strconv.Atoi(fields[0])
	stdout, stdoutErr := base64.StdEncoding.DecodeString(fields[1])
	stderr, stderrErr := base64.StdEncoding.DecodeString(fields[2])
	return result{
		status: status, stdout: string(stdout), stderr: string(stderr),
		err: errors.Join(statusErr, stdoutErr, stderrErr),
	}
}

// answer hands a result to who waits for it. m.mu is held.
func (m *Machine) answer(number int, r result) {
	if waiting := m.waiting[number]; waiting != nil {
		waiting <- r
		delete(m.waiting, number)
	}
}

// down notes that all scripts have ended. m.mu is held.
func (m *Machine) down() {
	m.up = false
	for number := range m.waiting {
		m.answer(number, result{err: ErrDown})
	}
}
