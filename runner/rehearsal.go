package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// rehearsalTime bounds a rehearsal, in which file systems and systemd are asked.
	rehearsalTime = time.Minute
	// unhindered is a limit of requests a second that a rehearsal does not come to. There is one, as
	// in earnest: what asks it is executed, too, which a watch does not.
	unhindered = 1000
	// rehearsedUnit is one that nearly every node has.
	rehearsedUnit = "dbus.service"
)

// rehearse executes a reboot by SysRq, and begins a command and the restart of a unit, with the
// code that really does so. A program that locks its memory then has in memory what a reboot
// needs. Without that, the node may have to read it from the disk whose death is the reason for
// the reboot.
//
// Nothing of it has an effect: the API server is played, the kernel's SysRq is /dev/null, the
// ledger is thrown away, and command and restart end before they begin.
func rehearse(ctx context.Context, opts Options) error {
	ctx, enough := context.WithTimeout(ctx, rehearsalTime)
	defer enough()
	ctx = remedy.WithPoints(ctx, func(string) { runtime.GC() })
	opts.RunDir = filepath.Join(opts.RunDir, "rehearsal")
	opts.SysRqPath = os.DevNull
	opts.sync = syncNothing
	opts.Clock = hurried{}
	opts.DetectorSocket = filepath.Join(opts.RunDir, "detector.sock") // where nobody listens
	opts.MetricsAddress, opts.HealthAddress = "", ""
	opts.Logger = logr.FromSlogHandler(slog.NewJSONHandler(io.Discard, nil))

	steps := []v1alpha1.Step{
		{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}},
		{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: rehearsedUnit}},
		{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}},
	}
	for i := range steps {
		opts.DryRun = steps[i].Reboot == nil
		if err := rehearseStep(ctx, opts, steps[i]); err != nil {
			return fmt.Errorf("rehearsing %s: %w", steps[i].Remedy(), err)
		}
	}
	return nil
}

func rehearseStep(ctx context.Context, opts Options, step v1alpha1.Step) (err error) {
	if err := os.RemoveAll(opts.RunDir); err != nil { // of one that was killed
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(opts.RunDir)) }()
	opts.Registry = prometheus.NewRegistry()
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	stage, err := newStage(opts.NodeName, step, ended)
	if err != nil {
		return err
	}
	stage.refusesEvents = opts.DryRun
	r, stop, err := newRunner(ctx, &rest.Config{Host: "http://rehearsal", Transport: stage, QPS: unhindered, Burst: unhindered}, opts)
	if err != nil {
		return err
	}
	defer stop()
	if err := readFilled(ctx, r.api); err != nil {
		return err
	}
	var dead atomic.Bool // the disk with the owner's veto is
	load := r.owner.load
	r.owner.load = func() ([]*runnerconfig.Veto, error) {
		if dead.Load() {
			return nil, unix.EIO
		}
		return load()
	}
	r.owner.read(ctx)
	dead.Store(true)
	if err := r.run(ctx); err != nil {
		return err
	}
	if !stage.reported() {
		return fmt.Errorf("the action did not come to its end: %w", context.Cause(ctx))
	}
	return nil
}

// readFilled reads an object of each kind that has all fields.
func readFilled(ctx context.Context, from API) error {
	_, action := from.Action(ctx, filledName)
	_, remediation := from.Remediation(ctx, filledName)
	_, policy := from.Policy(ctx, filledName)
	_, node := from.Node(ctx, filledName)
	_, budget := from.Budget(ctx, filledName)
	_, request := from.Request(ctx, &v1alpha1.Request{Namespace: filledName, Name: filledName})
	return errors.Join(action, remediation, policy, node, budget, request)
}

// hurried is a clock by which nothing pauses. All that waits for time collects garbage
// instead, which reads what the program says about each function that has been called.
type hurried struct{ clock.RealClock }

// After returns at once.
func (c hurried) After(time.Duration) <-chan time.Time {
	runtime.GC()
	return c.RealClock.After(0)
}

// NewTimer returns a usual one.
func (c hurried) NewTimer(d time.Duration) clock.Timer {
	runtime.GC()
	return c.RealClock.NewTimer(d)
}

// syncNothing is a sync(2) of a file system that has nothing to be written.
func syncNothing() {
	file, err := os.Open(os.DevNull)
	if err != nil {
		return
	}
	_ = unix.Syncfs(int(file.Fd())) // nobody needs it
	_ = file.Close()
}
