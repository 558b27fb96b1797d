package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// Times of a node's world.
const (
	// gracePeriod is after how long without a Lease the node controller says so.
	gracePeriod = 50 * time.Second
	leasePeriod = 10 * time.Second
	checkPeriod = time.Minute
)

// node is one with its host, its kubelet, and what of Nodemend runs on it.
type node struct {
	world *world
	name  string
	rack  string

	// up: the host runs. cut: it does not reach the API server.
	up, cut bool
	// hung: its host stands still, so that it is cut, too, until it goes on or ends.
	hung bool
	// bmc is that of its machine; nil: nobody can switch it.
	bmc *bmc
	// absent: its machine is gone, and no new one has come.
	absent bool
	// unready: the kubelet says that the node is not Ready.
	unready bool
	boot    int
	booted  time.Time
	offset  time.Duration
	// turned is when the node's Ready last changed, jumped when its clock last did.
	turned, jumped time.Time
	// unsure are the conditions of which checks can't tell.
	unsure map[string]bool
	// looksLast is how the detector looks for the last time, right before the next action
	// ends; nil: it does not.
	looksLast *lastLook
	// ledgerLost is when the ledger last was.
	ledgerLost time.Time
	// seen is when the kubelet last reached the API server, if it does not now.
	seen time.Time
	// back is since when it does, unless it does not.
	back time.Time

	// checks are the conditions that its detector reports.
	checks []string
	// agent is somebody else's, which reports on it; nil: there is none.
	agent *agent
	// flicker is another one, which reports on its link; nil: there is none.
	flicker *flicker
	// slow is until when requests of its agents may have been on their way for long.
	// claimTakes is how long the next claim of its runner does, which counts for nothing.
	slow       time.Time
	claimTakes time.Duration
	// blind: none of its checks runs. deaf: no runner starts.
	blind, deaf bool
	// runs is which runner the node has, older when one that is too old last started.
	runs  runnerKind
	older time.Time
	// acts plays what becomes of an execution, in a story, unless it returns false; lacks
	// says why a remedy can't be executed. Both may be nil.
	acts  func(*execution) bool
	lacks func(remedy.Order) *remedy.Outcome

	faults   map[string]*fault
	runner   *process
	detector *detector

	units      map[string]*execution
	executions []*execution
	effects    []*execution
}

// fault is what is wrong with a host, as one condition shows it.
type fault struct {
	since time.Time
	// cure is the remedy that helps; "": none does.
	cure string
	// reason that the condition gives; "": the usual one.
	reason string
}

// conditions that detectors report in a search.
func conditions() []string { return []string{"RuntimeUnhealthy", "DiskUnhealthy"} }

func (w *world) newNode(name, rack string, labels map[string]string) *node {
	n := &node{world: w, name: name, rack: rack, checks: conditions(), faults: map[string]*fault{}, unsure: map[string]bool{}}
	w.nodes = append(w.nodes, n)
	labels["rack"] = rack
	if rack == "r1" {
		labels[others.NodePoolLabel] = "workers"
	}
	w.register(n, labels)
	return n
}

// register creates the node's object, as its kubelet does.
func (w *world) register(n *node, labels map[string]string) {
	if n.absent {
		return
	}
	obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, Labels: labels,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}, // as what comes from an API server has
	}}
	w.must(w.admin.Create(w.ctx, obj))
}

func (n *node) bootID() string { return fmt.Sprintf("%s-boot-%d", n.name, n.boot) }

// object returns the node's, nil if there is none.
func (n *node) object() *corev1.Node {
	return apiserver.Peek[*corev1.Node](n.world.server, client.ObjectKey{Name: n.name})
}

// now is the host's time.
func (n *node) now() time.Time { return time.Now().Add(n.offset) }

// connected reports whether the kubelet works and reaches the API server.
func (n *node) connected() bool { return n.up && !n.cut }

// powerOn boots the host.
func (n *node) powerOn() {
	w := n.world
	if n.up || n.absent {
		return
	}
	if n.bmc != nil && !n.bmc.posting {
		n.bmc.powered()
	}
	n.up, n.boot, n.booted, n.back = true, n.boot+1, time.Now(), time.Now()
	if n.bmc != nil {
		n.bmc.posting = false
	}
	n.units = map[string]*execution{}
	w.say("host "+n.name, "boots, %s", n.bootID())
	w.after(3*time.Second, n.kubelet)
	boot := n.boot
	up := func(start func()) func() {
		return func() {
			if n.up && n.boot == boot {
				start()
			}
		}
	}
	w.after(5*time.Second, up(n.startRunner))
	w.after(6*time.Second, up(n.startDetector))
}

// powerOff ends all that runs on the host at once.
func (n *node) powerOff() {
	w := n.world
	if !n.up {
		return
	}
	w.say("host "+n.name, "is off")
	n.lost()
	n.up = false
	if n.hung {
		n.hung, n.cut = false, false
	}
	w.end(n.runner)
	if n.detector != nil {
		w.end(n.detector.process)
	}
	_ = os.RemoveAll(n.runDir()) // as /run
}

// lost remembers when the kubelet last reached the API server.
func (n *node) lost() {
	if n.connected() {
		n.seen = n.renewed()
		n.world.after(gracePeriod, n.unanswered)
	}
}

// cutOff parts the node from the API server, or lets it reach it again.
func (n *node) cutOff(cut bool) {
	if cut {
		n.lost()
	}
	if n.cut && !cut { // what has waited for the network is answered now
		n.slow = later(n.slow, time.Now().Add(time.Second))
	}
	n.cut = cut
	if !cut {
		n.back = time.Now()
		n.kubelet()
	}
}

// cutOff reports whether a process does not reach the API server.
func (p *process) cutOff() bool { return p.cut.After(time.Now()) || p.node != nil && p.node.cut }

// unanswered plays the node controller: a kubelet that does not answer is Unknown.
func (n *node) unanswered() {
	if !n.connected() {
		n.setReady(corev1.ConditionUnknown, "NodeStatusUnknown", time.Now())
	}
}

// kubelet writes the node's status.
func (n *node) kubelet() {
	if !n.connected() {
		return
	}
	status, reason := corev1.ConditionTrue, "KubeletReady"
	if n.unready {
		status, reason = corev1.ConditionFalse, "KubeletNotReady"
	}
	n.setReady(status, reason, n.now())
	if w := n.world; w.volumes != nil {
		w.after(2*time.Second, func() { w.volumes.run(n) })
	}
}

// setReady writes the condition Ready as of a time.
func (n *node) setReady(status corev1.ConditionStatus, reason string, at time.Time) {
	w := n.world
	var obj corev1.Node
	if err := w.admin.Get(w.ctx, client.ObjectKey{Name: n.name}, &obj); apierrors.IsNotFound(err) {
		return
	}
	if status != corev1.ConditionUnknown {
		obj.Status.NodeInfo.BootID = n.bootID()
		if n.bmc != nil {
			obj.Status.NodeInfo.SystemUUID = n.bmc.uuid.String()
		}
	}
	c := v1alpha1.FindNodeCondition(&obj, string(corev1.NodeReady))
	if c == nil {
		obj.Status.Conditions = append(obj.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady})
		c = &obj.Status.Conditions[len(obj.Status.Conditions)-1]
	}
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(at)
		n.turned = time.Now()
		w.say("kubelet "+n.name, "Ready=%s", status)
	}
	c.Status, c.Reason = status, reason
	if status != corev1.ConditionUnknown {
		c.LastHeartbeatTime = metav1.NewTime(at)
	}
	w.must(w.admin.Status().Update(w.ctx, &obj))
}

// renewed is when the kubelet last renewed the node's Lease.
func (n *node) renewed() time.Time {
	if !n.connected() {
		return n.seen
	}
	return time.Now().Truncate(leasePeriod)
}

// lease writes the Lease as it is now. It is written when somebody reads it, which
// nobody can tell from a Lease that is renewed all the time.
func (w *world) lease(name string) {
	n := w.node(name)
	if n == nil || n.boot == 0 {
		return
	}
	key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}
	var lease coordinationv1.Lease
	renewed := ptr.To(metav1.NewMicroTime(n.renewed().Add(n.offset)))
	written := []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: ptr.To(metav1.NewTime(n.renewed()))}}
	if err := w.admin.Get(w.ctx, key, &lease); apierrors.IsNotFound(err) {
		w.must(w.admin.Create(w.ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ManagedFields: written},
			Spec:       coordinationv1.LeaseSpec{RenewTime: renewed},
		}))
		return
	}
	lease.Spec.RenewTime, lease.ManagedFields = renewed, written
	w.must(w.admin.Update(w.ctx, &lease))
}

// node returns the node of this name.
func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// executing prepares what a request is about to read.
func (w *world) executing(c *call) {
	if c.request.Verb == "get" && c.request.Kind == "Lease" {
		w.lease(c.request.Name)
	}
	if c.request.Verb == "get" && c.request.Kind == "Node" && c.process.leads() {
		w.oracles.asked(c.request.Name)
	}
}

// cures takes away the faults for which the remedy helps.
func (n *node) cures(by string) {
	for _, condition := range sortedKeys(n.faults) {
		if n.faults[condition].cure == by {
			delete(n.faults, condition)
			n.world.say("host "+n.name, "%s is cured by %s", condition, by)
		}
	}
}

// stateFile is where the detector keeps its conditions, in all boots.
func (n *node) stateFile() string { return filepath.Join(n.world.dir, n.name+".state") }

// runDir is where the runner keeps its ledger: it lives as long as the boot.
func (n *node) runDir() string {
	return filepath.Join(n.world.dir, fmt.Sprintf("%s-%d", n.name, n.boot))
}
