package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/redfish"
)

const (
	fakeNodes = 20
	fakePods  = 80 // about four on a node
	// storyTimeout is how long a healing may take on a very slow machine.
	storyTimeout = 5 * time.Minute
)

//go:embed node.yaml
var nodeObject string

//go:embed objects.yaml
var objects string

//go:embed detector.yaml
var detectorConfig string

// demo is one run. Everything that it starts ends with it.
type demo struct {
	bin    string // the directory of the programs
	keep   bool
	screen screen

	dir      string
	node     string
	cluster  *cluster.Cluster
	programs map[string]*process.Process // that run, by name
	bmc      *server                     // nil: none
	ipmitool string                      // the real one
	machine  *machine                    // the one that is played
	started  time.Time
	past     map[string]bool // remediations whose story is told
	undo     []func() error  // what ends what was started
}

// run plays the demo. To be told to stop is no error.
func (d *demo) run(ctx context.Context) error {
	d.started, d.programs, d.past = time.Now(), map[string]*process.Process{}, map[string]bool{}
	err := d.play(ctx)
	stopped := ctx.Err() != nil
	if stopped {
		err = nil // whatever has not been done any more
	}
	slices.Reverse(d.undo)
	for _, undo := range d.undo {
		err = errors.Join(err, undo())
	}
	if stopped && err == nil {
		d.screen.line("\nEnded. All that was started is stopped, and its files are removed.")
	}
	return err
}

func (d *demo) play(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "nodemend-demo-"); err != nil {
		return err
	}
	d.undo = append(d.undo, func() error { return os.RemoveAll(d.dir) })
	if d.node, err = hostname(); err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	plots := []plot{d.runtimePlot()}
	if d.bmc != nil {
		plots = append(plots, d.hardwarePlot(ctx))
	}
	plots = append(plots, d.deadPlot(ctx))
	var told []string
	for i, p := range plots {
		d.screen.line("")
		d.screen.item("", bold, fmt.Sprintf("%d. ", i+1), 3, p.title)
		d.screen.line("")
		ctx, cancel := context.WithTimeoutCause(ctx, storyTimeout, fmt.Errorf("the story did not end within %s", storyTimeout))
		s, err := d.tell(ctx, p)
		cancel()
		if err != nil {
			return err
		}
		told = append(told, s.over)
		if p.ended == nil {
			continue
		}
		d.screen.line("")
		if err := p.ended(s); err != nil {
			return err
		}
	}
	d.screen.line("")
	if err := errors.Join(d.show(ctx, "nodemend", "status"), d.show(ctx, "nodemend", "describe", told[0])); err != nil {
		return err
	}
	if d.keep {
		return d.again(ctx)
	}
	return nil
}

// prepare starts all that the stories need.
func (d *demo) prepare(ctx context.Context) (err error) {
	d.say("starting a control plane of Kubernetes, and kwok, which plays nodes")
	d.cluster, err = cluster.Start(ctx, cluster.Options{
		CRDs: deploy.CRDs, ControllerManager: true, Scheduler: true, Kwok: true, Dir: filepath.Join(d.dir, "cluster"),
		// Renewed four times in that time, which is what proves that a node is Ready
		// still: every two seconds, for a short demo.
		ExtraArgs: map[string][]string{"kwok": {"--node-lease-duration-seconds=8"}},
	})
	if err != nil {
		return err
	}
	d.undo = append(d.undo, d.cluster.Stop)

	d.say("creating %d nodes, and %s: this machine, with a runtime of its own", fakeNodes, d.node)
	if err := d.apply(ctx, "node.yaml", nodeObject); err != nil {
		return err
	}
	if _, err := d.cluster.AddNodes(ctx, fakeNodes, "kwok", nil); err != nil {
		return err
	}
	d.undo = append(d.undo, d.stopPrograms)
	if err := d.startRuntime(); err != nil {
		return err
	}
	d.undo = append(d.undo, d.stopBMC)
	if err := d.startBMC(ctx); err != nil {
		return err
	}
	if err := d.startMachine(ctx); err != nil {
		return err
	}
	if err := d.applyObjects(ctx); err != nil {
		return err
	}
	return d.startRoles()
}

// again leaves everything running, and tells what becomes of the faults that people make,
// until it is stopped.
func (d *demo) again(ctx context.Context) error {
	command := fmt.Sprintf("kill -STOP %d", d.programs[runtimeName].Pid)
	d.screen.line("Everything goes on. In another terminal, in this directory:\n")
	d.screen.line("  export KUBECONFIG=" + d.cluster.Kubeconfig)
	d.screen.line("  export PATH=" + d.printedBin() + ":$PATH")
	d.screen.line("  kubectl nodemend status --watch")
	if d.bmc != nil {
		d.screen.line("  " + d.path("ipmitool") + " -I open sdr list")
	}
	d.screen.line("\nLet the container runtime hang again, as often as you like:\n\n  " + d.screen.in(bold, command) + "\n\nCtrl-C here ends it all.")
	for {
		s, err := d.tell(ctx, d.anyPlot())
		if err != nil {
			return err
		}
		d.screen.line("\nHealed in " + s.took().String() + ". Again: " + command)
	}
}

// printedBin is where a shell in this directory finds the programs.
func (d *demo) printedBin() string {
	if filepath.IsAbs(d.bin) {
		return d.bin
	}
	return "$PWD/" + d.bin
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
	d.screen.item(fmt.Sprintf("[%4.1fs] ", time.Since(d.started).Seconds()), plain, "", 0, fmt.Sprintf(format, args...))
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// render writes a template of the demo's files with its paths filled in.
func (d *demo) render(name, text string, mode os.FileMode) error {
	var out bytes.Buffer
	err := template.Must(template.New(name).Parse(text)).Execute(&out, map[string]any{
		"Node": d.node, "Pods": fakePods, "Socket": d.path("cri.sock"), "PIDFile": d.path("cri.pid"),
		"Hardware": d.bmc != nil, "HardwareState": d.path("hardware.json"),
		"IPMITool": d.path("ipmitool"), "RealIPMITool": d.ipmitool, "BMCSocket": d.path("bmc.sock"),
		"Machine": machineName, "BMCUser": redfish.User, "BMCPasswordFile": d.path("bmc-password"), "BMCCAFile": d.path("bmc-ca.crt"), "BMCURL": d.bmcURL(),
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
	if _, err := d.kubectl(ctx, "create", "namespace", leaseNamespace); err != nil {
		return err
	}
	if err := d.apply(ctx, "objects.yaml", objects+"---\n"+string(budget)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--timeout=60s", "--for=condition=Available", "deployment/web"},
		{"wait", "--timeout=60s", "--for=condition=Ready", "node/" + d.node, "node/" + machineName},
		{"wait", "--timeout=60s", "--for=jsonpath={.status.readyReplicas}=1", "statefulset/db"},
	} {
		if _, err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
