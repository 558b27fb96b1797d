package ipmisim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/process"
)

// Simulator is a BMC and its server. What a method does is done when it returns; if
// it can't be done, the test ends. Only SendRecv may be called concurrently.
type Simulator struct {
	t       testing.TB
	guid    string
	program string
	dir     string
	ports   ports
	process *process.Process
	console *console
	mutex   sync.Mutex // guards system
	system  *systemInterface

	// Of a machine that is attached.
	machine  Machine
	switches io.Closer
	watching sync.WaitGroup
}

// Start starts a healthy server that is on, with an empty SEL whose clock is not
// set. It ends with the test. The test is skipped if ipmi_sim is not installed.
func Start(t testing.TB) *Simulator {
	t.Helper()
	return StartAs(t, GUID)
}

// StartAs is Start, for a BMC with another System GUID: a UUID as [GUID] is one.
func StartAs(t testing.TB, guid string) *Simulator {
	t.Helper()
	program, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("needs ipmi_sim: apt-get install openipmi")
	}
	s := &Simulator{t: t, guid: guid, program: program, dir: t.TempDir()}
	s.must(os.Mkdir(s.path("state"), 0o700))
	s.write("commands", commands())
	s.write("chassis", powerControl)
	s.write("password", password+"\n")
	s.PowerOn()
	t.Cleanup(s.stop)
	// Between choosing a port and using it, another program may take it.
	const attempts = 5
	for range attempts {
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	s.must(err)
	return s
}

// LAN returns the UDP address at which the BMC speaks IPMI over LAN.
func (s *Simulator) LAN() (host string, port int) { return "127.0.0.1", s.ports.lan }

// PasswordFile is the file with User's password.
func (s *Simulator) PasswordFile() string { return s.path("password") }

// IPMITool returns the arguments by which ipmitool finds the BMC; a command follows
// them.
func (s *Simulator) IPMITool() []string {
	host, port := s.LAN()
	return []string{
		"-I", "lanplus", "-C", "3", "-H", host, "-p", strconv.Itoa(port), "-U", User, "-f", s.PasswordFile(),
	}
}

var errPortTaken = errors.New("one of its ports is taken")

// start starts the program and connects to it. What has been started is left to
// stop, unless a port was taken.
func (s *Simulator) start() error {
	var err error
	if s.ports, err = freePorts(); err != nil {
		return err
	}
	s.write("lan.conf", lanConfig(s.ports, s.guid, "/bin/sh "+s.path("chassis")))
	if err := s.launch(); err != nil {
		return err
	}
	connection, err := s.connect(s.ports.system)
	if err != nil {
		return err
	}
	s.system = newSystemInterface(connection)
	return s.attend()
}

// launch starts the program.
func (s *Simulator) launch() error {
	logFile, err := os.Create(s.path("log"))
	if err != nil {
		return err
	}
	s.process, err = process.Start(&exec.Cmd{
		Path: s.program, Args: []string{s.program, "-c", s.path("lan.conf"), "-f", s.path("commands"), "-s", s.path("state"), "-n"},
		Env:    []string{"PATH=/usr/bin:/bin"},
		Stdout: logFile, Stderr: logFile,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, logFile)
	return err
}

// attend connects to the console.
func (s *Simulator) attend() error {
	connection, err := s.connect(s.ports.console)
	if err != nil {
		return err
	}
	s.console, err = newConsole(connection)
	return err
}

// connect connects to a port as soon as the simulator listens there.
func (s *Simulator) connect(port int) (net.Conn, error) {
	deadline := time.NewTimer(answerTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		connection, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return connection, nil
		}
		select {
		case <-s.process.Exited:
			if strings.Contains(s.Log(), "bind") {
				return nil, errPortTaken
			}
			return nil, fmt.Errorf("ipmi_sim has ended: %s", s.Log())
		case <-deadline.C:
			return nil, fmt.Errorf("connecting to ipmi_sim: %w; its log: %s", err, s.Log())
		case <-tick.C:
		}
	}
}

// freePorts returns ports that are free at this moment.
func freePorts() (ports, error) {
	loopback := net.IPv4(127, 0, 0, 1)
	lan, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback})
	if err != nil {
		return ports{}, err
	}
	defer func() { _ = lan.Close() }()
	console, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: loopback})
	if err != nil {
		return ports{}, err
	}
	defer func() { _ = console.Close() }()
	system, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: loopback})
	if err != nil {
		return ports{}, err
	}
	defer func() { _ = system.Close() }()
	return ports{
		lan:     lan.LocalAddr().(*net.UDPAddr).Port,
		console: console.Addr().(*net.TCPAddr).Port,
		system:  system.Addr().(*net.TCPAddr).Port,
	}, nil
}

// free waits until nobody has the ports any more.
func (p ports) free(ctx context.Context) error {
	deadline, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := func() error {
			for _, port := range []int{p.console, p.system} {
				l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
				if err != nil {
					return err
				}
				_ = l.Close()
			}
			l, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.lan})
			if err == nil {
				_ = l.Close()
			}
			return err
		}()
		if err == nil {
			return nil
		}
		select {
		case <-deadline.Done():
			return fmt.Errorf("waiting for the ports of ipmi_sim: %w", err)
		case <-tick.C:
		}
	}
}

func (s *Simulator) stop() {
	if s.console != nil {
		_ = s.console.connection.Close()
	}
	if s.system != nil {
		_ = s.system.connection.Close()
	}
	if s.process != nil {
		s.process.Kill()
	}
	if s.switches != nil {
		_ = s.switches.Close() // was only read
	}
	s.watching.Wait()
	if s.t.Failed() {
		s.t.Logf("the log of ipmi_sim: %s", s.Log())
	}
}

// Log returns what the simulator has written.
func (s *Simulator) Log() string {
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func (s *Simulator) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Simulator) write(name, content string) {
	s.t.Helper()
	s.must(os.WriteFile(s.path(name), []byte(content), 0o600))
}

func (s *Simulator) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("the BMC simulator: %v", err)
	}
}
