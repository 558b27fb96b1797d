//go:build integration

package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/faults"
)

// How a node is, as far as pods may be scheduled to it.
const (
	inService = "in service"
	outByUs   = "out"
	cordoned  = "cordoned" // by somebody else
	nodeGone  = "gone"
	isOdd     = "marked, but in service"
)

// cordons remembers how the nodes of a scene were, one after the other.
type cordons struct {
	mu   sync.Mutex
	seen map[string][]string
	// now are the nodes that are out by us; most is how many there were at once.
	now  map[string]bool
	most int
}

func (s *scene) watchCordons() {
	c := &cordons{seen: map[string][]string{}, now: map[string]bool{}}
	s.cordons = c
	watcher, err := s.client.Watch(s.ctx, &corev1.NodeList{}, client.MatchingLabels(s.labels()))
	s.Expect(err).NotTo(HaveOccurred())
	s.spawn("watcher of cordons", func(ctx context.Context) error {
		defer watcher.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case event, open := <-watcher.ResultChan():
				if !open {
					return s.ctx.Err()
				}
				if node, ok := event.Object.(*corev1.Node); ok {
					c.see(node, event.Type == watch.Deleted)
				}
			}
		}
	})
}

func (c *cordons) see(node *corev1.Node, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := serviceOf(node)
	if gone {
		is = nodeGone
	}
	delete(c.now, node.Name)
	if is == outByUs {
		c.now[node.Name] = true
	}
	c.most = max(c.most, len(c.now))
	if seen := c.seen[node.Name]; len(seen) == 0 || seen[len(seen)-1] != is {
		c.seen[node.Name] = append(seen, is)
	}
}

func serviceOf(node *corev1.Node) string {
	_, marked := node.Annotations[v1alpha1.CordonedAnnotation]
	switch {
	case node.Spec.Unschedulable && marked:
		return outByUs
	case node.Spec.Unschedulable:
		return cordoned
	case marked:
		return isOdd
	default:
		return inService
	}
}

// of returns how the node was, one after the other.
func (c *cordons) of(node string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen[node])
}

// service returns how the node is.
func (s *scene) service(node string) string { return serviceOf(s.findNode(node)) }

// findNode reads the node.
func (s *scene) findNode(name string) *corev1.Node {
	node := &corev1.Node{}
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: name}, node)).To(Succeed())
	return node
}

// readiness returns the status of the node's Ready condition.
func (s *scene) readiness(node string) corev1.ConditionStatus {
	if c := v1alpha1.FindNodeCondition(s.findNode(node), string(corev1.NodeReady)); c != nil {
		return c.Status
	}
	return ""
}

// poke changes the node, so that whoever waits for a time looks at the clock again.
func (s *scene) poke(node string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"poke":%q}}}`, time.Now())
	s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// setUnschedulable does what kubectl cordon and kubectl uncordon do.
func (s *scene) setUnschedulable(node string, to bool) {
	s.t.Helper()
	patch := `{"spec":{"unschedulable":null}}`
	if to {
		patch = `{"spec":{"unschedulable":true}}`
	}
	s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// maintenances returns the names of those of the node.
func (s *scene) maintenances(node string) []string {
	var list v1alpha1.NodeMaintenanceList
	s.Expect(s.client.List(s.ctx, &list, client.MatchingFields{"spec.nodeName": node})).To(Succeed())
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// drainOf returns the reason of the Drained condition of the node's only maintenance, ""
// while there is none of its spec as it is.
func (s *scene) drainOf(node string) string {
	names := s.maintenances(node)
	s.Expect(names).To(HaveLen(1))
	var m v1alpha1.NodeMaintenance
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: names[0]}, &m)).To(Succeed())
	if c := m.Condition(v1alpha1.MaintenanceDrained); c != nil {
		return c.Reason
	}
	return ""
}

// maintain creates a person's maintenance of the node.
func (s *scene) maintain(name, node string) {
	s.t.Helper()
	s.create(&v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-" + name, Labels: s.labels()},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: node, Reason: "swap DIMM A1", RequestedBy: "jane@example.com"},
	})
}

// release deletes a maintenance.
func (s *scene) release(name string) {
	s.t.Helper()
	s.Expect(s.client.Delete(s.ctx, &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// parked reports whether the node's remediation has taken it out for good, and returned
// its permit.
func (s *scene) parked(node string) bool {
	return s.state(node) == v1alpha1.ReasonInMaintenance && len(s.permits()) == 0
}

// back reports whether the node's remediation is over, and the node in service.
func (s *scene) back(node string) bool {
	return s.ended(node) && len(s.permits()) == 0 && len(s.maintenances(node)) == 0 && s.service(node) == inService
}

// expectOut expects that the node's remediation has it parked.
func (s *scene) expectOut(node string) {
	s.t.Helper()
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonInMaintenance))
	s.Expect(s.service(node)).To(Equal(outByUs))
	s.Expect(s.maintenances(node)).To(HaveLen(1))
	s.Expect(s.permits()).To(BeEmpty())
}

// expectOutOnce expects that the node was taken out once, and given back once.
func (s *scene) expectOutOnce(node string) {
	s.t.Helper()
	s.Eventually(func() []string { return s.cordons.of(node) }).Should(Equal([]string{inService, outByUs, inService}))
}

// open returns "state/blocked by" of the node's open remediation, "" if there is none.
func (s *scene) open(node string) string {
	for _, r := range s.remediations(node) {
		if !r.Ended() {
			return r.State() + "/" + r.BlockedBy()
		}
	}
	return ""
}

// drained is how the nodes of scenes are drained.
func drained() *v1alpha1.Drain { return &v1alpha1.Drain{Timeout: duration(time.Hour)} }

// park is a step that takes the node out of service.
func park() v1alpha1.Step {
	return v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a test", Drain: drained()}}
}

// drainAndReboot is a step that reboots the node.
func drainAndReboot() v1alpha1.Step {
	step := reboot()
	step.Reboot.Drain = drained()
	return step
}

const hardwareFailure = "HardwareFailure"

// hardware: a part fails; the node is drained, switched off, switched on with the part
// as it was, and repaired. Nobody touches Kubernetes.
var hardware = story{
	name: "hardware",
	begin: func(s *scene) {
		m := s.machine(s.nodes[0], hardwareFailure)
		m.pod("web", "ReplicaSet")
		m.pod("daemon", "DaemonSet")
		m.breakDown()
		s.policyFor(hardwareFailure, park())
	},
	goOn: func(s *scene) bool {
		const longer = 1500 * time.Millisecond // than healthyFor
		node, m := s.nodes[0], s.machines[0]
		switch {
		case !s.exists("off"):
			if s.parked(node) && s.once("off") {
				s.expectOut(node)
				s.Expect(m.podNames()).To(Equal([]string{"daemon"}))
				m.switchOff()
			}
		case !s.exists("on"):
			s.expectOut(node)
			if s.since("off") > longer && s.once("on") {
				m.switchOn()
			}
		case !s.exists("repaired"):
			s.expectOut(node)
			if s.since("on") > longer && s.once("repaired") {
				m.repair()
			}
		default:
			return s.back(node)
		}
		return false
	},
	midway: func(s *scene) bool { return s.exists("on") },
	expect: func(s *scene) {
		node := s.nodes[0]
		s.Expect(s.back(node)).To(BeTrue())
		s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
		s.expectHistory("1/1 " + v1alpha1.ReasonSucceeded)
		s.Expect(s.actions(node)).To(BeEmpty())
		s.expectOutOnce(node)
	},
}

// rebooted: a node is drained and rebooted, which helps.
var rebooted = story{
	name: "reboot",
	begin: func(s *scene) {
		m := s.machine(s.nodes[0], sick)
		m.set(func(state *machineState) { state.cure = v1alpha1.RemedyReboot })
		m.pod("web", "ReplicaSet")
		m.pod("daemon", "DaemonSet")
		m.breakDown()
		s.policy(drainAndReboot())
	},
	goOn:   func(s *scene) bool { return s.ended(s.nodes[0]) && s.back(s.nodes[0]) },
	midway: func(s *scene) bool { return s.machines[0].reboots() == 1 },
	expect: func(s *scene) {
		s.expectRebootedOnce()
		s.Expect(s.machines[0].podNames()).To(Equal([]string{"daemon"}))
	},
}

// expectRebootedOnce expects that the first node was rebooted once, without any pod that
// could be evicted, and is back.
func (s *scene) expectRebootedOnce() {
	s.t.Helper()
	node, m := s.nodes[0], s.machines[0].get()
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
	s.expectHistory("1/1 " + v1alpha1.ReasonSucceeded)
	s.Expect(s.actions(node)).To(HaveLen(1))
	s.Expect(m.runs).To(Equal(map[string]int{v1alpha1.RemedyReboot: 1}))
	s.Expect(m.boot).To(Equal(2))
	s.Expect(m.caught).To(BeEmpty(), "pods that were there when it was rebooted")
	s.expectOutOnce(node)
}

// counted is put before the path of every write that counts, so that the faults'
// transport, which counts those of our kinds, counts those of nodes and pods as well.
const counted = "/apis/nodemend.dev/counted"

// failing makes the connections of a controller those of the transport. Events do not
// count: they are sent when it suits.
func failing(cfg *rest.Config, transport *faults.Transport) {
	rewrite := func(rewrite func(path string) string) func(http.RoundTripper) http.RoundTripper {
		return func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				clone := req.Clone(req.Context())
				clone.URL.Path = rewrite(req.URL.Path)
				return next.RoundTrip(clone)
			})
		}
	}
	cfg.Wrap(rewrite(func(path string) string { return strings.TrimPrefix(path, counted) }))
	cfg.Wrap(transport.Wrap)
	cfg.Wrap(rewrite(func(path string) string {
		if strings.Contains(path, "/events") {
			return path
		}
		return counted + path
	}))
}
