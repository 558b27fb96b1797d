package detector

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	clockcheck "github.com/nodemend/nodemend/checks/clock"
	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/drives"
	"github.com/nodemend/nodemend/checks/exhaustion"
	"github.com/nodemend/nodemend/checks/filesystem"
	"github.com/nodemend/nodemend/checks/gpu"
	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/checks/kubelet"
	"github.com/nodemend/nodemend/checks/kubeletapi"
	"github.com/nodemend/nodemend/checks/memory"
	"github.com/nodemend/nodemend/checks/network"
	"github.com/nodemend/nodemend/checks/pleg"
	"github.com/nodemend/nodemend/checks/services"
	"github.com/nodemend/nodemend/checks/tasks"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// Kinds are all kinds of checks, in the order in which people are told of them.
func Kinds() []checks.Kind {
	return []checks.Kind{
		containerruntime.Kind(), pleg.Kind(), kubelet.Kind(), hardware.Kind(),
		filesystem.Kind(), exhaustion.Kind(), tasks.Kind(), clockcheck.Kind(), network.Kind(),
		drives.Kind(), memory.Kind(), gpu.Kind(), services.Kind(),
	}
}

// enabledCheck is a check that the configuration enables.
type enabledCheck struct {
	checks.Kind
	check checks.Check
}

// enabledChecks are all of them.
type enabledChecks struct {
	list  []enabledCheck
	node  *checks.Node
	ready *readyCondition
	// off says which checks have nothing to check, and why.
	off []offCheck
}

// offCheck is one of them, and why.
type offCheck struct {
	kind checks.Kind
	why  string
}

// String is for people.
func (o offCheck) String() string { return o.kind.Name + ": " + o.why }

// newChecks makes the checks that are enabled. core is the client of the API
// server, which server learns the time from; both are nil without one.
func newChecks(options Options, core rest.Interface, server *serverclock.Clock, registerer prometheus.Registerer) (*enabledChecks, error) {
	ready := newReadyCondition(core, options.NodeName)
	node, err := newNode(options, ready, server, registerer)
	if err != nil {
		return nil, err
	}
	enabled := &enabledChecks{node: node, ready: ready}
	for _, kind := range Kinds() {
		if !node.Config.Checks.Runs(kind.Name) {
			continue
		}
		check, err := kind.New(node)
		if off := (checks.Off{}); errors.As(err, &off) {
			enabled.off = append(enabled.off, offCheck{kind, off.Why})
			continue
		}
		if err != nil {
			enabled.close()
			return nil, err
		}
		enabled.list = append(enabled.list, enabledCheck{kind, check})
	}
	return enabled, nil
}

// close releases what the checks hold. None may be running.
func (e *enabledChecks) close() {
	e.node.Kubelet.Close()
	for _, c := range append(e.list, enabledCheck{check: e.node.Runtime}) {
		if c, ok := c.check.(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// newNode prepares what checks look at the node with.
func newNode(options Options, ready *readyCondition, server *serverclock.Clock, registerer prometheus.Registerer) (*checks.Node, error) {
	bootID, err := boot.ID(boot.IDPath)
	if err != nil {
		return nil, err
	}
	c := options.Config.Checks.Runtime
	runtime, err := containerruntime.New(containerruntime.Options{
		Endpoint: c.Endpoint, Timeout: c.Timeout.Duration, NetworkNotReady: c.NetworkNotReady, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("preparing the client of the kubelet: %w", err)
	}
	return &checks.Node{
		Config: options.Config, NodeName: options.NodeName, BootID: bootID, Runtime: runtime, Kubelet: api,
		Ready: ready.get, ServerClock: server, AskServer: ready.ask,
		LookOnly: options.lookOnly, ReportBMC: options.reportBMC, Registerer: registerer, Clock: clock.RealClock{},
	}, nil
}

// newReadyCondition returns what reads the node's Ready condition.
func newReadyCondition(core rest.Interface, nodeName string) *readyCondition {
	read := func(ctx context.Context) (*corev1.Node, error) {
		if core == nil {
			return nil, errors.New("there is no API server")
		}
		return coreapi.Node(ctx, core, nodeName)
	}
	return &readyCondition{node: read, nodeName: nodeName, clock: clock.RealClock{}}
}
