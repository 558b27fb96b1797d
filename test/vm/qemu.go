package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/nodemend/nodemend/test/process"
)

const (
	program = "qemu-system-x86_64"
	// networkCard is its name in QEMU.
	networkCard = "card"
	// Files that QEMU inherits.
	monitorFile, agentFile = 3, 4
)

// kernelArguments make the kernel fast to boot in software, restart after a panic, and
// have all units write to the console. Time does not go by the TSC: how fast that is the
// kernel measures once, and on a busy machine it has been wrong by a factor of 200.
const kernelArguments = "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off nokaslr tsc=unstable no_timer_check " +
	"random.trust_cpu=on systemd.journald.forward_to_console=1 systemd.show_status=0"

func (m *Machine) startQEMU(ctx context.Context, k kernel) error {
	monitor, monitorEnd, err := socketPair()
	if err != nil {
		return err
	}
	defer func() { _ = monitorEnd.Close() }() // QEMU has it
	m.monitor = newQMP(monitor)
	m.done.Go(func() { m.monitor.read(m.onEvent) })
	port, portEnd, err := socketPair()
	if err != nil {
		return err
	}
	defer func() { _ = portEnd.Close() }() // QEMU has it
	m.port = port
	m.done.Go(func() { m.readAgent(port) })
	bmc := ""
	if m.options.BMC != nil {
		bmc = m.options.BMC.Attach(m) //nolint:contextcheck // it has the test's: ctx is for the start
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	log, err := os.Create(m.path("qemu.log"))
	if err != nil {
		return err
	}
	m.qemu, err = process.Start(&exec.Cmd{
		Path: path, Args: append([]string{program}, m.arguments(k, bmc)...),
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{monitorEnd, portEnd},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, log)
	if err != nil {
		return err
	}
	if _, err := m.monitor.run(ctx, "qmp_capabilities", nil); err != nil {
		return errors.Join(err, m.log())
	}
	return m.readForwards(ctx)
}

// readForwards asks for the ports that were chosen.
func (m *Machine) readForwards(ctx context.Context) error {
	answer, err := m.monitor.run(ctx, "human-monitor-command", map[string]string{"command-line": "info usernet"})
	if err != nil {
		return err
	}
	m.forwards = map[int]string{}
	for _, match := range regexp.MustCompile(`HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)`).FindAllSubmatch(answer, -1) {
		port, err := strconv.Atoi(string(match[2]))
		if err != nil {
			return err
		}
		m.forwards[port] = net.JoinHostPort("127.0.0.1", string(match[1]))
	}
	if len(m.forwards) != len(m.options.Forwards) {
		return fmt.Errorf("QEMU does not forward the ports %d: %s", m.options.Forwards, answer)
	}
	return nil
}

// arguments are those of QEMU; bmc is the address of one, if there is one.
func (m *Machine) arguments(k kernel, bmc string) []string {
	network := "user,id=network,ipv6=off"
	for _, port := range m.options.Forwards {
		network += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:0-:%d", port)
	}
	arguments := []string{
		"-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "pc", "-accel", "tcg", "-cpu", "qemu64,+rdrand", "-m", "768",
		"-kernel", k.image(), "-initrd", m.path("initramfs"), "-append", kernelArguments,
		// A machine without power is there, but does nothing.
		"-action", "shutdown=pause",
		"-chardev", "file,id=console,path=" + escaped(m.Console()), "-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", monitorFile), "-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", agentFile),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=agent",
		// It need not survive this machine.
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + escaped(m.path("disk")),
		"-netdev", network, "-device", "virtio-net-pci,romfile=,netdev=network,id=" + networkCard,
	}
	arguments = append(arguments, m.options.Devices...)
	if bmc != "" {
		host, port, _ := strings.Cut(bmc, ":")
		arguments = append(arguments,
			"-chardev", "socket,id=bmc,reconnect=1,host="+host+",port="+port,
			"-device", "ipmi-bmc-extern,id=bmc,chardev=bmc", "-device", "isa-ipmi-kcs,bmc=bmc")
	}
	return arguments
}

// escaped returns a path as the value of an option of QEMU.
func escaped(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// socketPair returns two ends of a connection, one of them for another process.
func socketPair() (net.Conn, *os.File, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to QEMU: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer func() { _ = ours.Close() }() // the connection has a copy
	connection, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to QEMU: %w", err)
	}
	return connection, theirs, nil
}
