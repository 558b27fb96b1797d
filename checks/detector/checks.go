package detector

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/checks/kubelet"
	"github.com/nodemend/nodemend/checks/kubeletapi"
	"github.com/nodemend/nodemend/checks/pleg"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/ipmi"
)

// timed is a check that knows how long a run takes at most.
type timed interface {
	checks.Check
	Timeout() time.Duration
}

// enabledCheck is a check and when it runs.
type enabledCheck struct {
	check timed
	run   config.Run
	// absences are the reasons with which a problem means that what is checked is
	// not there, or that the detector can't see it.
	absences []string
}

// enabledChecks are the checks that the configuration enables.
type enabledChecks struct {
	list    []enabledCheck
	closers []func()
	// off says which checks are off although they are enabled, and why.
	off []string
}

func (e *enabledChecks) add(check timed, run config.Run, absences ...string) {
	e.list = append(e.list, enabledCheck{check, run, absences})
}

// close releases what the checks hold. None may be running.
func (e *enabledChecks) close() {
	for _, closer := range e.closers {
		closer()
	}
}

// addHardware adds the check of the hardware, unless it may find out by itself
// whether there is a BMC and there is none.
func (e *enabledChecks) addHardware(c config.Hardware, metrics *hardware.Metrics) error {
	if !c.Enabled {
		return nil
	}
	if c.Source == config.SourceAuto && !hardware.Present(c) {
		e.off = append(e.off, "hardware: no BMC was found; name its source if there is one")
		return nil
	}
	boot, err := readBoot(clock.RealClock{})
	if err != nil {
		return err
	}
	check := hardware.New(hardware.Options{
		Open:  func() (ipmi.Source, error) { return hardware.Open(c) },
		Rules: c.Rules, Store: hardware.Store{Path: c.StateFile}, BootID: boot.id,
		Timeout: c.Timeout.Duration, Clock: clock.RealClock{}, Metrics: metrics,
	})
	e.closers = append(e.closers, check.Close)
	e.add(check, c.Run)
	return nil
}

// newChecks makes the checks that are enabled. core is the client of the API
// server, nil without one. hardwareMetrics may be nil.
func newChecks(options Options, core *corev1client.CoreV1Client, hardwareMetrics *hardware.Metrics) (*enabledChecks, error) {
	c := options.Config.Checks
	enabled := &enabledChecks{}
	// PLEG asks the runtime, too, whether or not that is a check of its own.
	runtime, err := containerruntime.New(containerruntime.Options{
		Endpoint: c.Runtime.Endpoint, Timeout: c.Runtime.Timeout.Duration,
		NetworkNotReady: c.Runtime.NetworkNotReady, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	enabled.closers = append(enabled.closers, runtime.Close)
	if c.Runtime.Enabled {
		enabled.add(runtime, c.Runtime.Run, containerruntime.ReasonSocketMissing, containerruntime.ReasonConnectionRefused)
	}
	if err := enabled.addHardware(c.Hardware, hardwareMetrics); err != nil {
		return nil, err
	}
	if !c.PLEG.Enabled && !c.Kubelet.Enabled {
		return enabled, nil
	}

	k := options.Config.Kubelet
	credentials := options.Client
	if credentials == nil {
		credentials = &rest.Config{}
	}
	api, err := kubeletapi.New(kubeletapi.Options{
		Endpoint: k.Endpoint, HealthzEndpoint: k.HealthzEndpoint,
		CertificateFiles: k.CertificateFiles, InsecureSkipTLSVerify: k.InsecureSkipTLSVerify, Credentials: credentials,
	})
	if err != nil {
		return nil, err
	}
	enabled.closers = append(enabled.closers, api.Close)
	if p := c.PLEG; p.Enabled {
		check, err := pleg.New(pleg.Options{
			Kubelet: api, Probe: runtime.Probe, ReadyCondition: newReadyCondition(core, options.NodeName),
			Timeout: p.Timeout.Duration, MaxLastSeen: p.MaxLastSeen.Duration, KubeletGrace: p.KubeletGrace.Duration,
			Clock: clock.RealClock{},
		})
		if err != nil {
			return nil, err
		}
		enabled.add(check, p.Run)
	}
	if o := c.Kubelet; o.Enabled {
		check, err := kubelet.New(kubelet.Options{
			Kubelet: api, Unit: o.Unit, Timeout: o.Timeout.Duration,
			MaxRestarts: o.MaxRestarts, RestartWindow: o.RestartWindow.Duration, Clock: clock.RealClock{},
		})
		if err != nil {
			return nil, err
		}
		enabled.add(check, o.Run, kubelet.ReasonConnectionRefused)
	}
	return enabled, nil
}

// newReadyCondition returns how to read the node's Ready condition.
func newReadyCondition(core *corev1client.CoreV1Client, nodeName string) func(context.Context) (corev1.NodeCondition, error) {
	if core == nil {
		return func(context.Context) (corev1.NodeCondition, error) {
			return corev1.NodeCondition{}, errors.New("the Ready condition is not known without an API server")
		}
	}
	return (&readyCondition{nodes: core.Nodes(), nodeName: nodeName, clock: clock.RealClock{}}).get
}
