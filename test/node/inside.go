package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/test/process"
)

// killedWait is how long a program that was killed may keep its output open.
const killedWait = time.Second

// Exec runs a program inside, found in the PATH, and returns what it has printed. It
// belongs to no unit and has no input. When ctx ends the program may live on inside.
func (n *Node) Exec(ctx context.Context, argv ...string) (string, error) {
	return n.run(ctx, nil, argv...)
}

func (n *Node) run(ctx context.Context, input io.Reader, argv ...string) (string, error) {
	args := append([]string{
		"--target=" + strconv.Itoa(n.PID()), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
	}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = []string{environment}
	cmd.Stdin = input
	cmd.WaitDelay = killedWait
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("running %q on node %s: %w: %s", argv, n.Name, err, output)
	}
	return string(output), nil
}

// PID returns the process ID of the node's PID 1 as seen from outside, for signals that
// it takes from nobody inside.
func (n *Node) PID() int { return n.init.Pid }

// MainPID returns the ID, inside, of a unit's main process.
func (n *Node) MainPID(ctx context.Context, unit string) (int, error) {
	output, err := n.Exec(ctx, "systemctl", "show", "--property=MainPID", "--value", unit)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(output))
	if err == nil && pid == 0 {
		err = fmt.Errorf("%s does not run", unit)
	}
	return pid, err
}

// Signal sends a signal to the main process of a unit.
func (n *Node) Signal(ctx context.Context, unit string, signal syscall.Signal) error {
	_, err := n.Exec(ctx, "systemctl", "kill", "--kill-who=main", "--signal="+strconv.Itoa(int(signal)), unit)
	return err
}

// Bus returns the path of the message bus's socket. It can be used from outside.
func (n *Node) Bus() string { return n.path("run/dbus/system_bus_socket") }

// RuntimeEndpoint returns containerd's, "unix:///tmp/…". It can be used from outside.
func (n *Node) RuntimeEndpoint() string {
	return "unix://" + filepath.Join(n.path("run"), containerdSocket)
}

// SysRq returns all that was written to the SysRq trigger.
func (n *Node) SysRq() string { return n.sysrq.text() }

// Journal returns the last lines of the node's journal, for these units or for all. It
// needs nothing inside to work.
func (n *Node) Journal(ctx context.Context, lines int, units ...string) (string, error) {
	args := []string{"--directory=" + n.path("run/log/journal"), "--quiet", "--no-pager", "--output=short-iso-precise", "--lines=" + strconv.Itoa(lines)}
	for _, unit := range units {
		args = append(args, "--unit="+unit)
	}
	output, err := exec.CommandContext(ctx, "journalctl", args...).CombinedOutput()
	return string(output), err
}

// PodLogs returns what all containers of a pod have said, with times, as the runtime
// keeps it. It needs nothing inside to work.
func (n *Node) PodLogs(namespace, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(n.path("log/pods"), namespace+"_"+name+"_*", "*", "*.log"))
	if err != nil {
		return "", err
	}
	text := &strings.Builder{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(text, "==> %s\n%s", filepath.Base(filepath.Dir(file)), data)
	}
	return text.String(), nil
}

// lastWords returns the ends of the logs of a node that does not start.
func (n *Node) lastWords(ctx context.Context) error {
	early, earlyErr := process.Tail(n.path("init.log"), tailBytes)
	journal, journalErr := n.Journal(ctx, tailLines)
	return errors.Join(errors.New("what it said first: "+early), earlyErr, errors.New("its journal: "+journal), journalErr)
}
