package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/internal/demand"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/reboot"
)

const (
	// DefaultRunDir is where a runner keeps its ledger. It must not outlive the
	// boot and must outlive a container.
	DefaultRunDir = "/run/nodemend/runner"

	// DefaultSysRqPath is the kernel's magic SysRq.
	DefaultSysRqPath = reboot.DefaultTrigger

	// DefaultProc is where the node's processes are found.
	DefaultProc = "/proc"
)

// Options say what a runner needs to know about the place it runs in.
type Options struct {
	// NodeName is the name of the Node object of the node that the runner runs
	// on. Required.
	NodeName string

	// DryRun answers every action with what would be done, and does nothing.
	DryRun bool

	// Execution is how commands are executed. Default: command.Auto.
	Execution command.Mode

	// RunDir is the directory of the ledger. Default: DefaultRunDir.
	RunDir string

	// Config is a file that says what may not be done, besides that of the node's owner
	// (see package config/runner). Default: none.
	Config string

	// BootIDPath is the file that holds the boot ID. Default: boot.IDPath.
	BootIDPath string

	// SysRqPath is the file that reboots the machine. Default: DefaultSysRqPath.
	SysRqPath string

	// Proc is the proc file system in which process 1 is the node's. Default:
	// DefaultProc.
	Proc string

	// HostRoot is the node's root directory, beneath which its owner's veto is and the
	// links of commands are followed. Default: that of process 1.
	HostRoot string

	// Systemd are the sockets of the node's systemd. Default: those that systemd
	// itself uses.
	Systemd *systemd.Dialer

	// DetectorSocket is where the detector is asked to run its checks after an
	// action. Default: demand.DefaultSocket.
	DetectorSocket string

	// Clock measures timeouts and expiry. Default: the real one.
	Clock clock.WithTicker

	// Registry takes the runner's metrics. Default: a new one.
	Registry *prometheus.Registry

	// MetricsAddress is the TCP address on which Run serves /metrics, for
	// example "127.0.0.1:9102". Empty: not served.
	MetricsAddress string

	// HealthAddress is the TCP address on which Run serves /healthz and
	// /readyz. Empty: not served.
	HealthAddress string

	// Logger is used by Run. Default: nothing is logged.
	Logger logr.Logger

	// Rehearsed is called by Run once, when all that a reboot takes has been executed,
	// but for its effect. Default: nothing.
	Rehearsed func()

	sync func() // sync(2) if nil
}

// withDefaults returns the options with every default filled in.
func (o Options) withDefaults() (Options, error) {
	if o.NodeName == "" {
		return o, errors.New("the runner has no node name: set it to the name of the Node object of the node it runs on, as in `kubectl get nodes`")
	}
	for _, d := range []struct {
		value  *string
		preset string
	}{
		{&o.RunDir, DefaultRunDir},
		{&o.BootIDPath, boot.IDPath},
		{&o.SysRqPath, DefaultSysRqPath},
		{&o.Proc, DefaultProc},
		{&o.DetectorSocket, demand.DefaultSocket},
	} {
		if *d.value == "" {
			*d.value = d.preset
		}
	}
	if o.HostRoot == "" {
		// What a container takes for the host would have no veto.
		if self, err := os.Readlink(filepath.Join(o.Proc, "self")); err == nil && self == "1" {
			return o, fmt.Errorf("process 1 in %s is this runner, not the node's, so what the node's owner denies can't be read: "+
				"give the runner's pod hostPID: true, or say by --host-root where the node's root directory is", o.Proc)
		}
		o.HostRoot = filepath.Join(o.Proc, "1", "root")
	}
	if o.Execution == "" {
		o.Execution = command.Auto
	}
	if o.Systemd == nil {
		o.Systemd = &systemd.Dialer{Bus: systemd.DefaultBus, Private: systemd.DefaultPrivate}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return o, nil
}
