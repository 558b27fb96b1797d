package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// sick is the condition that the stories of one fault show.
const sick = "RuntimeUnhealthy"

// scene makes nodes of these names, which are up, and a budget that lets all be acted on.
func (s *stage) scene(names ...string) *node {
	for _, name := range names {
		n := s.newNode(name, "r1", map[string]string{})
		n.acts = func(e *execution) bool { s.atReboot(e); return false }
		n.powerOn()
	}
	all := intstr.FromString("100%")
	s.create(&v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "workers"},
		Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: &all},
	})
	return s.nodes[0]
}

// healthy waits until all nodes are Ready and their detectors have reported.
func (s *stage) healthy() {
	s.until("all nodes are up", func() bool {
		for _, n := range s.nodes {
			if n.status("Ready") != corev1.ConditionTrue || n.status(n.checks[0]) == "" {
				return false
			}
		}
		return true
	})
}

// begin waits until all nodes are up, and starts the controller.
func (s *stage) begin() {
	s.healthy()
	s.startController()
	s.pass(time.Second)
}

func (s *stage) create(obj client.Object) { s.must(s.admin.Create(s.ctx, obj)) }

// policy makes one for sick; its change may be nil.
func (s *stage) policy(change func(*v1alpha1.RemedyPolicySpec), steps ...v1alpha1.Step) {
	spec := v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{{Type: sick, Status: corev1.ConditionTrue}},
		Steps: steps, Recovery: v1alpha1.Recovery{HealthyFor: duration(time.Minute)},
		DelayAfterJoin: &v1alpha1.Duration{}, Cooldown: &v1alpha1.Duration{}, // nodes are new, and incidents follow each other
	}
	if change != nil {
		change(&spec)
	}
	s.people.edited = time.Now()
	s.create(&v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: spec})
}

// edit lets a person change the policy.
func (s *stage) edit(change func(*v1alpha1.RemedyPolicySpec)) {
	var p v1alpha1.RemedyPolicy
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Name: "policy"}, &p))
	change(&p.Spec)
	s.people.edited = time.Now()
	s.update(&p)
}

// limit lets a person change the budget.
func (s *stage) limit(change func(*v1alpha1.RemediationBudgetSpec)) {
	var b v1alpha1.RemediationBudget
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Name: "workers"}, &b))
	change(&b.Spec)
	s.people.limited = time.Now()
	s.update(&b)
}

// Steps of policies.

func command(name string) v1alpha1.Step {
	return v1alpha1.Step{
		Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/" + name}},
		Timeout: duration(time.Minute), VerifyTimeout: duration(2 * time.Minute), Attempts: 1,
	}
}

func restart(unit string) v1alpha1.Step {
	step := command("")
	step.Command, step.RestartUnit = nil, &v1alpha1.RestartUnitRemedy{Name: unit}
	return step
}

// reboot is a step that reboots the node without a drain.
func reboot() v1alpha1.Step {
	step := command("")
	step.Command, step.Reboot = nil, &v1alpha1.RebootRemedy{}
	step.Timeout = duration(10 * time.Minute)
	return step
}

func drainAndReboot() v1alpha1.Step {
	step := reboot()
	step.Reboot.Drain = &v1alpha1.Drain{Timeout: duration(time.Hour)}
	return step
}

// park is a step that takes the node out of service.
func park() v1alpha1.Step {
	return v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a story", Drain: &v1alpha1.Drain{Timeout: duration(time.Hour)}}}
}

// How a node is, as far as pods may be scheduled to it.
const (
	inService = "in service"
	outByUs   = "out"
	cordoned  = "cordoned" // by somebody else
	nodeGone  = "gone"
	isOdd     = "marked, but in service"
)

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

// see remembers how nodes were, and ends pods.
func (s *stage) see(c apiserver.Change) {
	if pod, ok := c.New.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
		s.after(2*time.Second, func() { s.tend(client.ObjectKeyFromObject(pod)) })
		return
	}
	is, name := nodeGone, ""
	if updated, ok := c.New.(*corev1.Node); ok {
		is, name = serviceOf(updated), updated.Name
	} else if old, ok := c.Old.(*corev1.Node); ok {
		name = old.Name
	} else {
		return
	}
	if seen := s.service[name]; len(seen) == 0 || seen[len(seen)-1] != is {
		s.service[name] = append(seen, is)
	}
	out := 0
	for _, seen := range s.service {
		if seen[len(seen)-1] == outByUs {
			out++
		}
	}
	s.mostOut = max(s.mostOut, out)
}

// atReboot remembers which pods a reboot ends.
func (s *stage) atReboot(e *execution) {
	if e.remedy != v1alpha1.RemedyReboot {
		return
	}
	for _, pod := range stored[*corev1.Pod](s.oracles) {
		if pod.Spec.NodeName == e.node.name && !slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" }) {
			s.caught = append(s.caught, pod.Name)
		}
	}
}

// slowPod puts a pod on a node that does not end before letGo.
func (s *stage) slowPod(n *node, name string) {
	s.slow[name] = true
	s.pod(n, name)
}

// letGo lets a slow pod end when it is told to.
func (s *stage) letGo(name string) { delete(s.slow, name) }

// tend plays the kubelet, which ends a pod that was told to end.
func (s *stage) tend(key client.ObjectKey) {
	pod := apiserver.Peek[*corev1.Pod](s.server, key)
	switch {
	case pod == nil || pod.DeletionTimestamp == nil:
	case s.slow[pod.Name] || !s.node(pod.Spec.NodeName).connected():
		s.after(time.Minute, func() { s.tend(key) })
	default:
		s.must(client.IgnoreNotFound(s.admin.Delete(s.ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))))
	}
}

// alone makes a pod one of no controller.
func (s *stage) alone(name string) {
	s.change(name, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
}

// ofDaemonSet makes a pod one of a DaemonSet.
func (s *stage) ofDaemonSet(name string) {
	s.change(name, func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "DaemonSet" })
}

func (s *stage) change(name string, change func(*corev1.Pod)) {
	var pod corev1.Pod
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: name}, &pod))
	change(&pod)
	s.must(s.admin.Update(s.ctx, &pod))
}

// terminating reports whether a pod was told to end.
func (s *stage) terminating(name string) bool {
	pod := apiserver.Peek[*corev1.Pod](s.server, client.ObjectKey{Namespace: "default", Name: name})
	return pod != nil && pod.DeletionTimestamp != nil
}

// podsOn returns the names of those on a node.
func (s *stage) podsOn(n *node) []string {
	names := []string{}
	for _, pod := range stored[*corev1.Pod](s.oracles) {
		if pod.Spec.NodeName == n.name {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// deletePodOfStory deletes a pod at once.
func (s *stage) deletePodOfStory(name string) {
	s.must(s.admin.Delete(s.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, client.GracePeriodSeconds(0)))
}
