package ipmisim

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Machine is a virtual machine whose BMC the simulator is.
type Machine interface {
	PowerOff(ctx context.Context) error
	PowerOn(ctx context.Context) error
	Reset(ctx context.Context) error
	// PushPowerButton asks the operating system to shut down.
	PushPowerButton(ctx context.Context) error
}

// Attach makes the simulator the BMC of a machine, once: the power is switched, and the
// machine reset or asked to shut down, by commands to the BMC and by PowerOff and PowerOn. The machine finds
// the BMC at the returned TCP address, by the VM codec of OpenIPMI. SendRecv is slower
// from then on.
func (s *Simulator) Attach(machine Machine) (address string) {
	s.t.Helper()
	// What the program that switches the power does is read from a pipe. Open for
	// writing, too, the pipe has no end.
	s.must(syscall.Mkfifo(s.path("switches"), 0o600))
	switches, err := os.OpenFile(s.path("switches"), os.O_RDWR, 0)
	s.must(err)
	s.switches, s.machine = switches, machine
	s.watching.Go(func() { s.watch(switches) })

	// The simulator serves one connection.
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_ = s.system.connection.Close()
	s.system = nil
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports.system))
}

// watch does to the machine what is written to the pipe, until that is closed.
func (s *Simulator) watch(switches io.Reader) {
	lines := bufio.NewScanner(switches)
	for lines.Scan() {
		var err error
		switch lines.Text() {
		case "power 0":
			err = s.machine.PowerOff(s.t.Context())
		case "power 1":
			err = s.machine.PowerOn(s.t.Context())
		case "reset 1":
			err = s.machine.Reset(s.t.Context())
		case "shutdown 1":
			err = s.machine.PushPowerButton(s.t.Context())
		}
		if err != nil {
			s.t.Errorf("the BMC simulator: %s of the machine: %v", lines.Text(), err)
		}
	}
}

// sendOverLAN sends a command by ipmitool, and returns the response from its completion
// code on.
func (s *Simulator) sendOverLAN(netFn, cmd byte, data []byte) ([]byte, error) {
	arguments := append(s.IPMITool(), "raw", fmt.Sprint(netFn), fmt.Sprint(cmd))
	for _, b := range data {
		arguments = append(arguments, fmt.Sprint(b))
	}
	output, err := exec.CommandContext(s.t.Context(), "ipmitool", arguments...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		if code := regexp.MustCompile(`rsp=0x([0-9a-f]{2})`).FindSubmatch(failed.Stderr); code != nil {
			return hex.DecodeString(string(code[1]))
		}
		return nil, fmt.Errorf("ipmitool %q: %w: %s", arguments, err, failed.Stderr)
	}
	if err != nil {
		return nil, err
	}
	return hex.DecodeString("00" + strings.Join(strings.Fields(string(output)), ""))
}
