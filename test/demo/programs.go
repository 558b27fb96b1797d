package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/process"
)

const (
	// runtimeName is the container runtime's name among the programs.
	runtimeName = "container-runtime"
	// remoteRunner is that of the remote runner.
	remoteRunner = "remote-runner"
	// stopGrace is how long a program may take to end.
	stopGrace = 10 * time.Second
	// tailBytes is how much of a log is shown of a program that has ended by itself.
	tailBytes = 2000
)

// leaseNamespace is where the controller has its Lease, and the plugin looks for it.
const leaseNamespace = "nodemend-system"

// startRuntime starts the CRI server in a process of its own, so that it can
// be stopped like a container runtime that hangs.
func (d *demo) startRuntime() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := d.start(runtimeName, self, "--cri-server", d.path("cri.sock")); err != nil {
		return err
	}
	return os.WriteFile(d.path("cri.pid"), fmt.Appendln(nil, d.programs[runtimeName].Pid), 0o600)
}

// startRoles starts the roles of the real binary.
func (d *demo) startRoles() error {
	if err := d.render("detector.yaml", detectorConfig, 0o600); err != nil {
		return err
	}
	if err := d.render("remote.yaml", remoteConfig, 0o600); err != nil {
		return err
	}
	d.say("starting nodemend: the controller, the remote runner; detector and runner on %s", d.node)
	var errs []error
	for _, role := range roles() {
		errs = append(errs, d.startRole(role))
	}
	return errors.Join(errs...)
}

// roles are those of the real binary, in the order of their start.
func roles() []string { return []string{"controller", remoteRunner, "detector", "runner"} }

func (d *demo) startRole(role string) error {
	program, args := "nodemend-agent", []string{role, "--node-name=" + d.node}
	switch role {
	case "controller":
		program, args = "nodemend", []string{role, "--leader-election-namespace=" + leaseNamespace}
	case remoteRunner:
		program, args = "nodemend", []string{"runner", "--remote", "--config=" + d.path("remote.yaml"), "--leader-election-namespace=" + leaseNamespace}
	case "detector":
		args = append(args, "--config="+d.path("detector.yaml"), "--port=0", "--prometheus-port=0")
	case "runner":
		// The node is played here, so its first process is whoever looks.
		proc, err := process.OwnProc(d.dir)
		if err != nil {
			return err
		}
		args = append(args, "--execution=Direct", "--host-proc="+proc, "--run-dir="+d.path("runner"))
	}
	return d.start(role, filepath.Join(d.bin, program), append(args, "--kubeconfig="+d.cluster.Kubeconfig)...)
}

// start starts a program whose output goes to a log file, and which dies with the demo. Ctrl-C
// does not reach it. What it leaves behind when it is killed is in the demo's directory.
func (d *demo) start(name, program string, args ...string) error {
	started, err := d.launch(name, program, args...)
	if err != nil {
		return err
	}
	d.programs[name] = started
	return nil
}

func (d *demo) launch(name, program string, args ...string) (*process.Process, error) {
	logFile, err := os.OpenFile(d.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	started, err := process.Start(&exec.Cmd{
		Path: program, Args: append([]string{program}, args...), Stdout: logFile, Stderr: logFile, Env: append(os.Environ(), "TMPDIR="+d.dir),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, logFile)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return started, nil
}

// exited returns a channel that is closed when the program has ended by itself.
func (d *demo) exited(name string) <-chan struct{} {
	if p := d.programs[name]; p != nil {
		return p.Exited
	}
	return nil
}

// died says that a program has ended by itself.
func (d *demo) died(name string) error {
	p := d.programs[name]
	delete(d.programs, name)
	how := "by itself"
	if p.Err != nil {
		how = p.Err.Error()
	}
	tail, err := process.Tail(d.path(name+".log"), tailBytes)
	if err != nil {
		tail = err.Error()
	}
	return fmt.Errorf("the %s has ended (%s), so nothing more can be shown. The end of its log:\n%s", name, how, tail)
}

// kill kills a program as a lost power does.
func (d *demo) kill(name string) {
	if p := d.programs[name]; p != nil {
		p.Kill()
		delete(d.programs, name)
	}
}

// stopPrograms asks the programs to end and waits for them, the runtime last. What is stopped
// by SIGSTOP can only be killed.
func (d *demo) stopPrograms() error {
	var errs []error
	stopped := roles()
	slices.Reverse(stopped)
	for _, name := range stopped {
		if p := d.programs[name]; p != nil && !p.HasExited() {
			if _, err := p.StopGroup(stopGrace); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	d.kill(runtimeName)
	return errors.Join(errs...)
}

// logTails returns the last lines of every role's log as an error, for a story
// that did not end well.
func (d *demo) logTails() error {
	var errs []error
	for _, name := range roles() {
		if tail, err := process.Tail(d.path(name+".log"), tailBytes); err == nil {
			errs = append(errs, fmt.Errorf("the end of the %s's log:\n%s", name, tail))
		}
	}
	return errors.Join(errs...)
}

func (d *demo) kubectl(ctx context.Context, args ...string) (string, error) {
	return d.cluster.Kubectl(ctx, args...)
}

// show shows a command of kubectl, and of its plugin, as a person would run it.
func (d *demo) show(ctx context.Context, args ...string) error {
	program, err := cluster.Program("kubectl")
	if err != nil {
		return err
	}
	return d.showOf(ctx, "kubectl", program, args...)
}

// showOf shows the command of a program.
func (d *demo) showOf(ctx context.Context, name, program string, args ...string) error {
	bin, err := filepath.Abs(d.bin)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.cluster.Kubeconfig, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	d.screen.command(name+" "+strings.Join(args, " "), string(out))
	return nil
}
