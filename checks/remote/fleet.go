package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// node is what is known of one.
type node struct {
	name      string
	labels    labels.Set
	addresses []corev1.NodeAddress
	// conditions are those that the Node has, of the types that are configured.
	conditions map[string]corev1.NodeCondition
	// left is whether it has conditions of a former configuration.
	left bool
}

// fleetOptions say what a fleet needs. All are required, but for serverClock.
type fleetOptions struct {
	looks       []look
	heartbeat   config.Heartbeat
	clock       clock.Clock
	rand        func() float64
	metrics     *exporter.Metrics
	serverClock *serverclock.Clock
	// export makes the exporter of a node.
	export func(exporter.Options) (*exporter.Exporter, error)
}

// fleet are the nodes that there are, with an exporter for each that is looked at.
type fleet struct {
	fleetOptions
	thresholds map[corev1.NodeConditionType]exporter.Thresholds
	began      time.Time

	mu      sync.Mutex
	members map[string]*member
	running sync.WaitGroup
}

// member is a node of the fleet.
type member struct {
	node
	// types are those of the conditions that are reported of it.
	types []string
	// conditions writes them; nil: none ever was. stop ends it.
	conditions *exporter.Exporter
	stop       context.CancelFunc
}

func newFleet(options fleetOptions) *fleet {
	f := &fleet{
		fleetOptions: options, began: options.clock.Now(),
		thresholds: map[corev1.NodeConditionType]exporter.Thresholds{}, members: map[string]*member{},
	}
	return f
}

// informer returns what keeps the fleet up to date. It begins no goroutine.
func (f *fleet) informer(ctx context.Context, nodes cache.ListerWatcher) cache.Controller {
	put := func(obj any) {
		if n, ok := obj.(*corev1.Node); ok {
			f.put(ctx, f.known(n))
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: nodes,
		ObjectType:    &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    put,
			UpdateFunc: func(_, obj any) { put(obj) },
			DeleteFunc: func(obj any) {
				if node, err := cache.DeletionHandlingObjectToName(obj); err == nil {
					f.remove(node.Name)
				}
			},
		},
		Transform: f.needed,
	})
	return controller
}

// leftover marks, in the cache, a node with conditions of a former configuration.
const leftover = "nodemend.dev/left-by-remote-detector"

// needed keeps what is needed of a Node, so that thousands take little memory.
func (f *fleet) needed(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Node{}
	slim.Name, slim.UID, slim.ResourceVersion, slim.Labels = n.Name, n.UID, n.ResourceVersion, n.Labels
	slim.Status.Addresses = n.Status.Addresses
	known := f.known(n)
	for _, c := range n.Status.Conditions {
		if _, ours := known.conditions[string(c.Type)]; ours {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	if known.left {
		slim.Annotations = map[string]string{leftover: ""}
	}
	return slim, nil
}

// known is what is kept of a Node.
func (f *fleet) known(n *corev1.Node) node {
	known := node{name: n.Name, labels: n.Labels, addresses: n.Status.Addresses, conditions: map[string]corev1.NodeCondition{}}
	_, known.left = n.Annotations[leftover]
	types := f.typesOf(known)
	for _, c := range n.Status.Conditions {
		if slices.Contains(types, string(c.Type)) {
			known.conditions[string(c.Type)] = c
		}
	}
	for _, t := range exporter.Owned(n, FieldManager) {
		known.left = known.left || !slices.Contains(types, string(t))
	}
	return known
}

// typesOf are those of the conditions that are reported of a node.
func (f *fleet) typesOf(n node) (types []string) {
	for _, l := range f.looks {
		types = append(types, l.types(n)...)
	}
	return types
}

// put takes in a node as it is now.
func (f *fleet) put(ctx context.Context, n node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	types := f.typesOf(n)
	m := f.members[n.name]
	if m == nil {
		m = &member{}
		f.members[n.name] = m
	}
	m.node = n
	if m.conditions != nil && slices.Equal(m.types, types) || m.conditions == nil && len(types) == 0 && !n.left {
		return
	}
	if m.stop != nil {
		m.stop() // the next one removes what is not reported any more
	}
	m.types = types
	if err := f.start(ctx, m); err != nil {
		klog.FromContext(ctx).Error(err, "Conditions of a node can't be written", "node", n.name)
	}
}

// start starts the exporter of a member. The mutex is held.
func (f *fleet) start(ctx context.Context, m *member) (err error) {
	log := klog.FromContext(ctx).WithValues("node", m.name)
	named := []corev1.NodeConditionType{}
	for _, t := range m.types {
		named = append(named, corev1.NodeConditionType(t))
	}
	m.conditions, err = f.export(exporter.Options{
		NodeName: m.name, FieldManager: FieldManager, Named: named, Thresholds: f.thresholdsOf(m.node), Boot: f.began,
		Heartbeat: f.heartbeat.Interval.Duration, ProblemHeartbeat: f.heartbeat.ProblemInterval.Duration,
		OnChange: func(c exporter.Change) {
			if !c.Confirmed {
				log.Info("Condition changes", "condition", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
			}
		},
		Clock: f.clock, Rand: f.rand, Metrics: f.metrics, ServerClock: f.serverClock,
	})
	if err != nil {
		return err
	}
	ctx, m.stop = context.WithCancel(ctx)
	conditions := m.conditions
	f.running.Go(func() { _ = conditions.Run(ctx) }) // it returns nil
	return nil
}

func (f *fleet) thresholdsOf(n node) map[corev1.NodeConditionType]exporter.Thresholds {
	thresholds := map[corev1.NodeConditionType]exporter.Thresholds{}
	for _, l := range f.looks {
		for _, t := range l.types(n) {
			thresholds[corev1.NodeConditionType(t)] = exporter.Thresholds{Failure: l.settings().FailureThreshold, Success: l.settings().SuccessThreshold}
		}
	}
	return thresholds
}

// remove takes in that a node is gone.
func (f *fleet) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[name]; m != nil && m.stop != nil {
		m.stop()
	}
	delete(f.members, name)
}

// close ends all exporters, and waits for that.
func (f *fleet) close() {
	f.mu.Lock()
	for _, m := range f.members {
		if m.stop != nil {
			m.stop()
		}
	}
	f.mu.Unlock()
	f.running.Wait()
}

// of returns the nodes that a look is for, by their names.
func (f *fleet) of(l look) (nodes []node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if len(l.types(m.node)) > 0 {
			nodes = append(nodes, m.node)
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.name, b.name) })
	return nodes
}

// report hands what a look that began then has found to the exporters.
func (f *fleet) report(source string, started time.Time, found found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, observations := range found {
		m := f.members[name]
		if m == nil || m.conditions == nil {
			continue // it is gone
		}
		report := &checks.Report{Source: source}
		for _, o := range observations {
			o.At = started
			if slices.Contains(m.types, o.Type) {
				report.Observations = append(report.Observations, o)
			}
		}
		m.conditions.Take(report)
	}
}

// healthy returns an error if an exporter makes no progress.
func (f *fleet) healthy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for name, m := range f.members {
		if m.conditions == nil {
			continue
		}
		if err := m.conditions.Healthy(); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
