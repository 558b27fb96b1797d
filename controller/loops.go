package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/driven"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/external"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gc"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/maintenance"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/controller/outofservice"
	"github.com/nodemend/nodemend/controller/policy"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/controller/worker"
)

// Parts are what the controller's loops have to do with the world. All are required but LeftOff.
type Parts struct {
	// Client reads from a cache that has the indexes of package index, and writes to
	// the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Nodes are those of the cache.
	Nodes fleet.Nodes
	// Store is that of the cache.
	Store index.Store
	// Drainer evicts pods.
	Drainer Drainer
	// Clock tells the time of decisions.
	Clock clock.PassiveClock
	// Metrics counts outcomes.
	Metrics *remediation.Metrics
	// LeftOff counts the machines that a maintenance leaves to people; nil: nobody does.
	LeftOff prometheus.Counter
	// Events tells people what has changed.
	Events events.EventRecorder
	// Driven: the API server serves NodemendRemediations, by which other programs drive Nodemend.
	Driven bool
	// Leases: the Leases of medik8s are taken for nodes that are out of service.
	Leases bool
	// HistoryLimit is how many ended remediations of a node are kept, HistoryAge how
	// long one is.
	HistoryLimit int
	HistoryAge   time.Duration
}

// Drainer evicts the pods of a node, and lists them, as drain.Drainer does.
type Drainer interface {
	maintenance.Drainer
	OnNode(ctx context.Context, node string) ([]corev1.Pod, error)
}

// Loops returns all that the controller does.
func Loops(p Parts) []worker.Loop {
	permits, seen := budget.New(p.Client, p.Live), &evidence.Tracker{}
	maintenances := &maintenance.Reconciler{
		Client: p.Client, Live: p.Live, Drainer: p.Drainer, Clock: p.Clock, Events: p.Events, LeftOff: p.LeftOff, Leases: p.Leases,
	}
	remediations := &remediation.Reconciler{
		Client: p.Client, Live: p.Live, StillDrained: maintenances.StillDrained, Permits: permits, Nodes: p.Nodes, Store: p.Store,
		Clock: p.Clock, Seen: seen, Metrics: p.Metrics, Events: p.Events,
	}
	matcher := &match.Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock, Seen: seen, Nodes: p.Nodes, Created: remediations.Created}
	budgets := &budget.Reconciler{Client: p.Client, Live: p.Live, Permits: permits, Clock: p.Clock, Nodes: p.Nodes, Store: p.Store}
	history := &gc.Reconciler{Client: p.Client, Clock: p.Clock, Limit: p.HistoryLimit, Age: p.HistoryAge}
	externals := &external.Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock}
	power := &gc.Power{Client: p.Client, Clock: p.Clock}
	taints := &outofservice.Reconciler{Client: p.Client, Live: p.Live, Pods: p.Drainer.OnNode, Steady: steady(p.Clock), Now: p.Clock.Now, Events: p.Events}
	policies := &policy.Reconciler{Client: p.Client, Nodes: p.Nodes, Clock: p.Clock}
	loops := []worker.Loop{
		matcher.Loop(), remediations.Loop(), externals.Loop(), maintenances.Loop(), budgets.Loop(), history.Loop(), power.Loop(), taints.Loop(), policies.Loop(),
	}
	if p.Driven {
		requests := &driven.Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock, Created: remediations.Created, Wake: remediations.Wake}
		loops = append(loops, requests.Loop())
	}
	return loops
}

// steady returns a clock that nobody sets, for what passes: not even an answer of the API server.
func steady(c clock.PassiveClock) func() time.Time {
	if s, ok := c.(interface{ Steady() time.Time }); ok {
		return s.Steady
	}
	return c.Now
}
