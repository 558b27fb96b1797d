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
	"github.com/nodemend/nodemend/checks/kubelet"
	"github.com/nodemend/nodemend/checks/kubeletapi"
	"github.com/nodemend/nodemend/checks/pleg"
	config "github.com/nodemend/nodemend/config/detector"
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
}

// enabledChecks are the checks that the configuration enables.
type enabledChecks struct {
	list    []enabledCheck
	closers []func()
}

func (e *enabledChecks) add(check timed, run config.Run) {
	e.list = append(e.list, enabledCheck{check, run})
}

// close releases what the checks hold. None may be running.
func (e *enabledChecks) close() {
	for _, closer := range e.closers {
		closer()
	}
}

// newChecks makes the checks that are enabled. core is the client of the API
// server, nil without one.
func newChecks(options Options, core *corev1client.CoreV1Client) (*enabledChecks, error) {
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
		enabled.add(runtime, c.Runtime.Run)
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
		enabled.add(check, o.Run)
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
