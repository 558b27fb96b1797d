package checks

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/kubeletapi"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// Kind is all that the detector knows of one kind of check.
type Kind struct {
	// Name identifies the check in the configuration file, in logs and metrics, and
	// as the source of its reports.
	Name string
	// ConditionType is the node condition that the check alone reports.
	ConditionType string
	// Help says when the condition is True, for those who read the command's help.
	Help string
	// Absences are the reasons with which a problem means that what is checked is
	// not there, or that the detector can't see it.
	Absences []string
	// Milder are the reasons of problems that are less than those with any other reason,
	// as policies may leave them out. After one of these, a problem with another reason is a
	// new one.
	Milder []string
	// Timed are the reasons of problems that mean no more than that something did not answer in time.
	// They prove nothing if the detector itself was not run in that time.
	Timed []string
	// Settings returns what all checks can be told, of this one.
	Settings func(*config.Checks) *config.Run
	// New makes the check. Its error is [Off] if there is nothing to check on this
	// node. A check that has a method Close is closed after its last run.
	New func(*Node) (Check, error)
}

// Off is the error of a check that is enabled and has nothing to check.
type Off struct{ Why string }

// Error says why.
func (o Off) Error() string { return o.Why }

// Node is the node that is checked, and what several checks look at it with.
type Node struct {
	// Config is the detector's, and valid.
	Config config.Config
	// NodeName is the node's.
	NodeName string
	// BootID is the kernel's.
	BootID string
	// Runtime is the check of the container runtime, whether or not it is enabled:
	// others ask the runtime, too.
	Runtime Runtime
	// Kubelet is this node's.
	Kubelet *kubeletapi.Client
	// Ready returns the node's condition Ready as it was some minutes ago at most.
	Ready func(context.Context) (corev1.NodeCondition, error)
	// ServerClock knows the API server's time once that has answered; nil without one.
	ServerClock *serverclock.Clock
	// AskServer gets an answer of the API server's now, by which ServerClock learns the time.
	AskServer func(context.Context) error
	// LookOnly is whether a person looks, once: what the detector remembers is read, and not
	// changed.
	LookOnly bool
	// ReportBMC takes in what the node is to report of its BMC, and does not wait for that; nil: nothing
	// is.
	ReportBMC func(power.ReportedBMC)
	// Registerer takes metrics of the check's own.
	Registerer prometheus.Registerer
	Clock      clock.Clock
}

// Runtime is the check of the container runtime.
type Runtime interface {
	Check
	// Probe lists all pod sandboxes, once. It returns nil if that was answered
	// before ctx has ended.
	Probe(ctx context.Context) error
}
