package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/process"
)

const (
	fakeNodes = 20
	fakePods  = 80 // about four on a node
	// storyTimeout is how long a healing may take on a very slow machine.
	storyTimeout = 2 * time.Minute
)

//go:embed node.yaml
var nodeObject string

//go:embed objects.yaml
var objects string

//go:embed detector.yaml
var detectorConfig string

// demo is one run. Everything that it starts ends with it.
type demo struct {
	programs string
	keep     bool

	dir      string
	node     string
	cluster  *cluster.Cluster
	runtime  *exec.Cmd
	roles    map[string]*exec.Cmd // that run
	bmc      *server              // nil: none
	ipmitool string               // the real one
	started  time.Time
}

func (d *demo) run(ctx context.Context) (err error) {
	d.started = time.Now()
	if d.dir, err = os.MkdirTemp("", "nodemend-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	if d.node, err = hostname(); err != nil {
		return err
	}

	d.say("starting a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok")
	d.cluster, err = cluster.Start(ctx, cluster.Options{
		CRDs: deploy.CRDs, ControllerManager: true, Scheduler: true, Kwok: true, Dir: filepath.Join(d.dir, "cluster"),
		// Renewed four times in that time, which is what proves that a node is Ready
		// still: every two seconds, for a short demo.
		ExtraArgs: map[string][]string{"kwok": {"--node-lease-duration-seconds=8"}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cluster.Stop()) }()

	d.say("creating node %s: this machine, with a container runtime of its own; and %d nodes that kwok plays", d.node, fakeNodes)
	if err := d.apply(ctx, "node.yaml", nodeObject); err != nil {
		return err
	}
	if _, err := d.cluster.AddNodes(ctx, fakeNodes, "kwok", nil); err != nil {
		return err
	}
	if err := d.startRuntime(ctx); err != nil {
		return err
	}
	defer d.stopRuntime()
	if err := d.startBMC(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stopBMC()) }()
	if err := d.applyObjects(ctx); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, d.stopRoles()) }()
	if err := d.startRoles(ctx); err != nil {
		return err
	}
	plots := []plot{d.runtimePlot()}
	if d.bmc != nil {
		plots = append(plots, d.hardwarePlot(ctx))
	}
	for _, p := range plots {
		if err := d.tell(ctx, p); err != nil {
			return errors.Join(err, d.logTails())
		}
	}
	// What a user would look at.
	fmt.Println()
	for _, kind := range []string{"remediations", "nodeactions", "remediationbudgets", "remedypolicies"} {
		if err := d.show(ctx, "get", kind); err != nil {
			return err
		}
	}
	if d.keep {
		fmt.Printf("Everything is still running. In another terminal:\n\n  export KUBECONFIG=%s\n  bin/kubectl get nodemend\n\nStop the runtime again with:  kill -STOP %d\n",
			d.cluster.Kubeconfig, d.runtime.Process.Pid)
		if d.bmc != nil {
			fmt.Printf("Read the BMC with:            %s -I open sdr list\n", d.path("ipmitool"))
		}
		fmt.Println("Ctrl-C here ends it all.")
		<-ctx.Done()
	}
	return nil
}

// hostname returns the machine's name as a node name.
func hostname() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", err
	}
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		default:
			return '-'
		}
	}, strings.ToLower(name)), "-."), nil
}

// say prints a line of the preparation, with the time since the start.
func (d *demo) say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// startRuntime starts the CRI server in a process of its own, so that it can
// be stopped like a container runtime that hangs.
func (d *demo) startRuntime(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if d.runtime, err = d.start(ctx, "container-runtime", self, "--cri-server", d.path("cri.sock")); err != nil {
		return err
	}
	return os.WriteFile(d.path("cri.pid"), fmt.Appendln(nil, d.runtime.Process.Pid), 0o600)
}

func (d *demo) stopRuntime() {
	// Whatever state it is in, SIGKILL ends it.
	_ = d.runtime.Process.Kill()
	_ = d.runtime.Wait()
}

// startRoles starts the three roles of the real binary.
func (d *demo) startRoles(ctx context.Context) error {
	if err := d.render("detector.yaml", detectorConfig, 0o600); err != nil {
		return err
	}
	d.say("starting nodemend: the controller, and on %s the detector and the runner", d.node)
	d.roles = map[string]*exec.Cmd{}
	for _, role := range []string{"controller", "detector", "runner"} {
		if err := d.startRole(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) startRole(ctx context.Context, role string) (err error) {
	program, args := "nodemend-agent", []string{role, "--node-name=" + d.node}
	switch role {
	case "controller":
		program, args = "nodemend", []string{role, "--leader-election-namespace=default"}
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
	cmd, err := d.start(ctx, role, filepath.Join(d.programs, program), append(args, "--kubeconfig="+d.cluster.Kubeconfig)...)
	if err != nil {
		return err
	}
	d.roles[role] = cmd
	return nil
}

// start starts a program whose output goes to a log file and which does not
// outlive the demo.
func (d *demo) start(ctx context.Context, name, program string, args ...string) (*exec.Cmd, error) {
	logFile, err := os.OpenFile(d.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logFile.Close() }() // the child has its own
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return cmd, nil
}

// stopRoles asks the roles that run to end and waits for them.
func (d *demo) stopRoles() error {
	var errs []error
	for _, p := range d.roles {
		_ = p.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	for _, p := range d.roles {
		var exit *exec.ExitError
		if err := p.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// render writes a template of the demo's files with its paths filled in.
func (d *demo) render(name, text string, mode os.FileMode) error {
	var out bytes.Buffer
	err := template.Must(template.New(name).Parse(text)).Execute(&out, map[string]any{
		"Node": d.node, "Pods": fakePods, "Socket": d.path("cri.sock"), "PIDFile": d.path("cri.pid"),
		"Hardware": d.bmc != nil, "HardwareState": d.path("hardware.json"),
		"IPMITool": d.path("ipmitool"), "RealIPMITool": d.ipmitool, "BMCSocket": d.path("bmc.sock"),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(d.path(name), out.Bytes(), mode)
}

func (d *demo) apply(ctx context.Context, name, text string) error {
	if err := d.render(name, text, 0o600); err != nil {
		return err
	}
	_, err := d.kubectl(ctx, "apply", "-f", d.path(name))
	return err
}

// applyObjects applies the demo's objects and the sample budget. The policies of
// deploy/policies are left out: they would restart this machine's own container runtime, and take
// their time.
func (d *demo) applyObjects(ctx context.Context) error {
	d.say("applying %d pods, policies, and the sample budget: one node at a time", fakePods)
	budget, err := deploy.Samples.ReadFile("samples/budget.yaml")
	if err != nil {
		return err
	}
	if err := d.apply(ctx, "objects.yaml", objects+"---\n"+string(budget)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--timeout=60s", "--for=condition=Available", "deployment/web"},
		{"wait", "--timeout=60s", "--for=condition=Ready", "node/" + d.node},
	} {
		if _, err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) kubectl(ctx context.Context, args ...string) (string, error) {
	return d.cluster.Kubectl(ctx, args...)
}

// show prints what a kubectl command prints.
func (d *demo) show(ctx context.Context, args ...string) error {
	out, err := d.kubectl(ctx, args...)
	if err != nil {
		return err
	}
	fmt.Printf("$ kubectl %s\n%s\n", strings.Join(args, " "), out)
	return nil
}

// logTails returns the last lines of every role's log as an error, for a story
// that did not end well.
func (d *demo) logTails() error {
	var errs []error
	for _, name := range []string{"controller", "detector", "runner"} {
		f, err := os.Open(d.path(name + ".log"))
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() > 2000 {
			_, _ = f.Seek(-2000, io.SeekEnd)
		}
		tail, _ := io.ReadAll(f)
		_ = f.Close()
		errs = append(errs, fmt.Errorf("the end of the %s's log:\n%s", name, tail))
	}
	return errors.Join(errs...)
}
