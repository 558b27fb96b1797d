package sim

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/checks/statefile"
	"github.com/nodemend/nodemend/test/apiserver"
)

// detector is the real exporter with scripted checks.
type detector struct {
	*process
	exporter *exporter.Exporter
}

// seen is one run of a check.
type seen struct {
	condition string
	status    corev1.ConditionStatus
	// began is the server's time.
	began time.Time
	boot  int
}

// startDetector starts the node's detector.
func (n *node) startDetector() {
	w := n.world
	if n.detector != nil {
		w.end(n.detector.process)
	}
	p := w.newProcess("detector "+n.name, "detector", n)
	p.clock.offset = n.offset
	d := &detector{process: p}
	n.detector = d
	w.say(p.name, "starts")
	options := exporter.Options{
		NodeName: n.name, Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second,
		Boot: n.booted.Add(n.offset), BootID: n.bootID(), Clock: p.clock, ServerClock: p.corrected(),
		Rand: func() float64 { return 0.5 }, Registerer: prometheus.NewRegistry(),
	}
	if w.profile.stateFiles {
		options.StateFile = n.stateFile()
		options.Restored, _ = statefile.Load(options.StateFile, n.name) // none: nothing is known
	}
	var err error
	if d.exporter, err = exporter.NewFor(nodeAPI{p.client, n.name}, options); err != nil {
		w.broken("the simulation", "starting a detector: %v", err)
		return
	}
	go func() { _ = d.exporter.Run(p.ctx) }() // it ends with the process
	w.after(time.Second, d.check)
}

// check runs the checks, and again after a while.
func (d *detector) check() {
	if d.dead.Load() {
		return
	}
	d.world.after(checkPeriod, d.check)
	d.look()
}

// look lets the checks see how the host is. A detector that is frozen, or whose checks
// hang, sees nothing.
func (d *detector) look() {
	n := d.node
	if n.blind || d.frozen.After(time.Now()) {
		return
	}
	status := &checks.Report{Source: "played"}
	for _, condition := range n.checks {
		saw := seen{condition: condition, status: corev1.ConditionFalse, began: time.Now(), boot: n.boot}
		reason := "IsHealthy"
		if f := n.faults[condition]; f != nil {
			saw.status, reason = corev1.ConditionTrue, cmp.Or(f.reason, "IsBroken")
		}
		if n.unsure[condition] {
			saw.status, reason = corev1.ConditionUnknown, "CannotTell"
		}
		d.world.oracles.checked(n, saw)
		status.Observations = append(status.Observations, checks.Observation{
			Type: condition, Status: checks.Status(saw.status), At: d.clock.Now(), Reason: reason, Message: "played",
		})
	}
	d.exporter.Take(status)
}

// demand lets all checks run at once, as a runner asks after an action. It is called by
// the runner's goroutine.
func (n *node) demand() {
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.demanded = append(w.demanded, n)
	w.rouse()
}

func (n *node) demandNow() {
	if d := n.detector; d != nil && !d.dead.Load() && n.up {
		d.exporter.Demand()
		d.look()
	}
}

// nodeAPI is a detector's Node.
type nodeAPI struct {
	client *apiserver.Client
	name   string
}

// Get implements exporter.Node.
func (a nodeAPI) Get(ctx context.Context) (*corev1.Node, error) {
	var node corev1.Node
	err := a.client.Get(ctx, client.ObjectKey{Name: a.name}, &node)
	return &node, err
}

// PatchStatus implements exporter.Node.
func (a nodeAPI) PatchStatus(ctx context.Context, data []byte) error {
	node := &corev1.Node{}
	node.Name = a.name
	return a.client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, data))
}
