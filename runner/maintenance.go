package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

const (
	// retrySwitch is when a switch is asked again that did not answer, retryConfig when
	// something is that a person has to mend.
	retrySwitch, retryConfig = time.Minute, 10 * time.Minute
	// retryFacts is when it is looked again at what holds a node, which tells nobody.
	retryFacts = 30 * time.Second
)

// MaintenanceWorkerOptions are what a MaintenanceWorker has to do with the world. All are required
// but Power.
type MaintenanceWorkerOptions struct {
	Outside
	// API is the API server.
	API MaintenanceAPI
	// Take reserves a node for what is done with its machine, and returns false if something is
	// under way there. Give is its end.
	Take func(node string) bool
	Give func(node string)
	// Power lets maintenances switch machines off. What is off is switched on all the same.
	Power bool
}

// MaintenanceWorker does for maintenances what is done with a machine from outside: its light, and
// its power. It keeps nothing that the next one needs: that stands in the status of the
// maintenance, before anything is switched.
type MaintenanceWorker struct {
	MaintenanceWorkerOptions

	mu    sync.Mutex
	nodes map[string]map[types.UID]tried // by the node, then by the maintenance
}

// tried is what this process has done for a maintenance.
type tried struct {
	// lit: the light was to shine at the last try. Nothing is tried before next.
	lit  bool
	next time.Time
	// asked is what is said of it once the operating system was asked to shut down; "": it was not. The power was
	// switched last at sent.
	asked string
	sent  time.Time
	// asking and cutting are since when this process tries that: the phase may be older. Zero: not yet.
	asking, cutting time.Time
	// failed is how often in a row its switch could not be read, and failing since when.
	failed  int
	failing time.Time
	// read is what was read of the machine that is to go off.
	read readings
	// off are the readings that are to prove that the machine is off.
	off proof.Stays
	// takenOver is when another process went on with the power before.
	takenOver time.Time
	// unheard is the maintenance as it was to be written, if nobody has said what became of that.
	unheard *v1alpha1.NodeMaintenance
}

// NewMaintenanceWorker returns a MaintenanceWorker.
func NewMaintenanceWorker(o MaintenanceWorkerOptions) *MaintenanceWorker {
	return &MaintenanceWorker{MaintenanceWorkerOptions: o, nodes: map[string]map[types.UID]tried{}}
}

// watchMaintenances returns an informer that queues the nodes of maintenances of which something is
// to be switched, or was. What the worker writes after each look queues nothing: a BMC that refuses in other
// words each time would be asked again at once, for ever.
func watchMaintenances(all cache.ListerWatcher, q queue) cache.Controller {
	queueNode := func(obj any) {
		if last, is := obj.(cache.DeletedFinalStateUnknown); is {
			obj = last.Obj
		}
		if m, is := obj.(*v1alpha1.NodeMaintenance); is && concernsMachine(m) {
			q.Add(m.Spec.NodeName)
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: all,
		ObjectType:    &v1alpha1.NodeMaintenance{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: queueNode,
			UpdateFunc: func(before, now any) {
				if !sameOfTheMachine(before, now) {
					queueNode(before)
					queueNode(now)
				}
			},
			DeleteFunc: queueNode,
		},
		Transform: onlyTheMachine,
	})
	return controller
}

// onlyTheMachine keeps of a maintenance what watchMaintenances needs: what others write that decides what is
// switched, and the phase, with which the worker goes on.
func onlyTheMachine(obj any) (any, error) {
	m, is := obj.(*v1alpha1.NodeMaintenance)
	if !is {
		return obj, nil
	}
	slim := &v1alpha1.NodeMaintenance{}
	slim.Name, slim.UID, slim.ResourceVersion = m.Name, m.UID, m.ResourceVersion
	slim.Generation, slim.DeletionTimestamp, slim.Finalizers = m.Generation, m.DeletionTimestamp, m.Finalizers
	slim.Spec.NodeName, slim.Spec.Power, slim.Spec.Identify = m.Spec.NodeName, m.Spec.Power, m.Spec.Identify
	slim.Status.NodeUID, slim.Status.Machine = m.Status.NodeUID, m.Status.Machine
	if m.Drained() {
		slim.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue}}
	}
	if m.Status.Identify != nil {
		slim.Status.Identify = &v1alpha1.IdentifyStatus{}
	}
	if p := m.Status.Power; p != nil {
		slim.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: p.Phase}
	}
	return slim, nil
}

// sameOfTheMachine reports whether nothing has changed of what onlyTheMachine keeps.
func sameOfTheMachine(before, now any) bool {
	was, is := before.(*v1alpha1.NodeMaintenance)
	m, are := now.(*v1alpha1.NodeMaintenance)
	if !is || !are {
		return false
	}
	was = was.DeepCopy()
	was.ResourceVersion = m.ResourceVersion
	return equality.Semantic.DeepEqual(was, m)
}

// concernsMachine reports whether something of the machine is to be switched for the maintenance, or
// was.
func concernsMachine(m *v1alpha1.NodeMaintenance) bool {
	return m.Spec.Identify || m.Spec.Power != "" || m.Status.Identify != nil || m.Status.Power != nil
}

// machineAtWork is one node, with the maintenances of its name.
type machineAtWork struct {
	*MaintenanceWorker
	name string
	// node is nil if there is none.
	node  *corev1.Node
	all   []v1alpha1.NodeMaintenance
	tried map[types.UID]tried
	// lampEnd is when the lamps have had their time; zero: none was switched yet.
	lampEnd time.Time
}

// Work takes the light and the power of a node's machine as far as they can go now. It returns after
// how long to look again; 0: when a maintenance changes.
func (w *MaintenanceWorker) Work(ctx context.Context, name string) (again time.Duration, err error) {
	if !w.Take(name) {
		return 0, errBusy
	}
	defer w.Give(name)
	node, err := w.API.Node(ctx, name)
	if err != nil {
		return 0, err
	}
	holds, err := w.API.Holds(ctx, name)
	if err != nil {
		return 0, err
	}
	t := &machineAtWork{MaintenanceWorker: w, name: name, node: node, all: holds.Maintenances, tried: w.recall(name, holds.Maintenances)}
	defer t.remember()
	slices.SortFunc(t.all, func(a, b v1alpha1.NodeMaintenance) int { return compareAge(&a, &b) })
	again, err = t.lights(ctx)
	if err != nil {
		return 0, err
	}
	later, err := t.powers(ctx)
	return soonest(again, later), err
}

// compareAge orders maintenances, the oldest first.
func compareAge(a, b *v1alpha1.NodeMaintenance) int {
	if by := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); by != 0 {
		return by
	}
	return slices.Compare([]byte(a.UID), []byte(b.UID))
}

// recall returns what this process has done for these maintenances, and forgets all others.
func (w *MaintenanceWorker) recall(name string, all []v1alpha1.NodeMaintenance) map[types.UID]tried {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := map[types.UID]tried{}
	for i := range all {
		if before, is := w.nodes[name][all[i].UID]; is {
			known[all[i].UID] = before
		}
	}
	delete(w.nodes, name)
	return known
}

func (t *machineAtWork) remember() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tried) > 0 {
		t.nodes[t.name] = t.tried
	}
}

// soonest returns the shorter one of two waits, of which 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// errNoMachine is of a node whose machine is not known, or can't be told from others.
var errNoMachine = errors.New("its machine is not known")

// machineOf returns the machine of the node, and what its switch is found by.
func (t *machineAtWork) machineOf() (*v1alpha1.Machine, error) {
	if t.node == nil {
		return nil, fmt.Errorf("%w: there is no node %s", errNoMachine, t.name)
	}
	uuid, err := power.ParseUUID(t.node.Status.NodeInfo.SystemUUID)
	if err != nil {
		return nil, fmt.Errorf("%w: the systemUUID of node %s: %w", errNoMachine, t.name, err)
	}
	needed, err := t.Needed(t.node)
	if err != nil {
		return nil, err
	}
	machine := &v1alpha1.Machine{UUID: uuid.String()}
	if len(needed.Labels) > 0 {
		machine.Labels = needed.Labels
	}
	if len(needed.Annotations) > 0 {
		machine.Annotations = needed.Annotations
	}
	return machine, nil
}

// alone returns an error if another node may be of this machine, too.
func (t *machineAtWork) alone(ctx context.Context, machine power.UUID) error {
	twin, err := t.API.Twin(ctx, t.name, machine)
	if err == nil && twin != "" {
		err = fmt.Errorf("%w: node %s has the systemUUID %s, too, so nobody can tell which of the two it is", errNoMachine, twin, machine)
	}
	return err
}

// isOurs reports whether the node is that of the machine, also if it was registered anew.
func (t *machineAtWork) isOurs(m *v1alpha1.NodeMaintenance) bool {
	if t.node == nil || m.Status.Machine == nil {
		return false
	}
	machine, err := power.ParseUUID(m.Status.Machine.UUID)
	if err != nil {
		return false
	}
	is, err := power.ParseUUID(t.node.Status.NodeInfo.SystemUUID)
	return err == nil && slices.Contains(machine.Alike(), is)
}

// switchOf returns what switches a machine, and its UUID.
func (t *machineAtWork) switchOf(machine *v1alpha1.Machine) (power.Switch, power.UUID, error) {
	uuid, err := power.ParseUUID(machine.UUID)
	if err != nil {
		return nil, uuid, fmt.Errorf("status.machine.uuid: %w", err)
	}
	found, err := t.Switch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.name, Labels: machine.Labels, Annotations: machine.Annotations}})
	return found, uuid, err
}

// write writes the status of a maintenance.
func (t *machineAtWork) write(ctx context.Context, m *v1alpha1.NodeMaintenance, change func(*v1alpha1.NodeMaintenanceStatus)) error {
	written := m.DeepCopy()
	change(&written.Status)
	write := t.API.UpdateMaintenance
	if before := m.Status.Power; before != nil && switches(before.Phase) && written.Status.Power.Phase != before.Phase {
		write = t.writeLast
	}
	if err := write(ctx, written); err != nil {
		return err
	}
	if written.Status.Identify == nil && written.Status.Power == nil {
		return errors.New("the API server drops status.identify and status.power of a NodeMaintenance: install the CRDs of this version of Nodemend")
	}
	*m = *written
	return nil
}

// switches reports whether a machine is asked to shut down in this phase, cut, or switched on.
func switches(phase v1alpha1.PowerPhase) bool {
	return phase == v1alpha1.PowerShuttingDown || phase == v1alpha1.PowerCutting || phase == v1alpha1.PowerRestoring
}

// call gives a switch its time.
func call[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, proof.CallTimeout)
	defer cancel()
	return f(ctx)
}
