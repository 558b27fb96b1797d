package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const poolLabel = "pool"

// vetoLabel is of pods that keep all pods on their node where a drain heeds them.
const vetoLabel = "veto"

// setScene makes the nodes, policies and budgets of a run.
func (w *world) setScene() {
	w.people = people{world: w, cordoned: map[string]bool{}, replaced: map[string]bool{}, blinded: map[string]bool{}, freed: map[string]bool{}, words: map[string]*word{}, unsaid: map[string]bool{}, forced: map[types.UID]bool{}}
	count := 1 + w.pick(4)
	if w.profile.crowd {
		count += 2
	}
	switched, sick := w.chance(250), 700 // out of a thousand nodes, soon
	if switched {
		count, sick = 2+w.pick(2), 150
	}
	w.agents = w.chance(200)
	w.flickers = w.chance(200)
	others := count // are not of the control plane
	if !switched && w.chance(120) {
		others = w.pick(2)
	}
	for i := range count {
		labels := map[string]string{poolLabel: of(w.choices, "a", "a", "b")}
		if i < count-others || !switched && w.chance(w.inCrowd(50, 150)) {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}
		n := w.newNode(fmt.Sprintf("n%d", i+1), fmt.Sprintf("r%d", i%2+1), labels)
		n.powerOn()
		if w.agents {
			n.startAgent()
		}
		if w.flickers {
			n.startFlicker()
		}
		for j := range w.pick(3) {
			w.labelledPod(n, fmt.Sprintf("%s-p%d", n.name, j+1), map[string]string{guardedLabel: of(w.choices, "false", "true")})
		}
		if w.chance(100) {
			w.labelledPod(n, n.name+"-veto", map[string]string{vetoLabel: "true"})
		}
	}
	for _, n := range w.nodes {
		if w.chance(sick) {
			condition := of(w.choices, conditions()...)
			w.after(of(w.choices, 10*time.Second, 30*time.Second, 2*time.Minute), func() {
				if n.faults[condition] == nil && w.chaos {
					n.fail(condition, w.cure())
				}
			})
		}
	}
	if w.chance(300) {
		w.guardPods()
	}
	if switched {
		w.count("machines have switches")
		w.setPower()
		return
	}
	w.setOthers()
	for i := range 1 + w.pick(2) {
		w.must(w.admin.Create(w.ctx, w.newBudget(fmt.Sprintf("b%d", i+1))))
	}
	for i := range 1 + w.pick(3) {
		w.must(w.admin.Create(w.ctx, w.newPolicy(fmt.Sprintf("p%d", i+1))))
	}
}

// setOthers has other programs at work.
func (w *world) setOthers() {
	if w.chance(400) {
		w.installRemediators()
	}
	if w.chance(200) {
		w.installDrivers()
	}
	if w.chance(250) {
		w.count("machines have an owner")
		w.installOwners()
	}
}

// pod puts a pod on a node that goes when it is told to.
func (w *world) pod(n *node, name string) { w.labelledPod(n, name, nil) }

func (w *world) labelledPod(n *node, name string, labels map[string]string) {
	w.must(w.admin.Create(w.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: n.name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}))
}

func duration(d time.Duration) v1alpha1.Duration { return v1alpha1.Duration{Duration: d} }

// selector selects all nodes, or a pool.
func (w *world) selector() *metav1.LabelSelector {
	if w.chance(300) {
		return &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: of(w.choices, "a", "b")}}
	}
	return nil
}

func (w *world) newBudget(name string) *v1alpha1.RemediationBudget {
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.limits(&b.Spec)
	b.Spec.NodeSelector = w.selector()
	if w.chance(300) {
		b.Spec.GroupBy = "rack"
	}
	return b
}

// inCrowd chooses a number by whether the run is one of a crowd.
func (w *world) inCrowd(crowd, others int) int {
	if w.profile.crowd {
		return crowd
	}
	return others
}

// limits sets those of a budget.
func (w *world) limits(spec *v1alpha1.RemediationBudgetSpec) {
	concurrent := of(w.choices, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("50%"), intstr.FromInt32(10))
	spec.MaxConcurrent = &concurrent
	spec.MaxUnavailable, spec.MinHealthy, spec.MaxReboots = nil, nil, nil
	if w.chance(w.inCrowd(850, 400)) {
		unavailable := of(w.choices, intstr.FromInt32(1), intstr.FromString("50%"), intstr.FromInt32(2), intstr.FromString("34%"))
		spec.MaxUnavailable = &unavailable
	}
	if w.chance(w.inCrowd(400, 200)) {
		healthy := of(w.choices, intstr.FromInt32(1), intstr.FromString("50%"), intstr.FromString("34%"))
		spec.MinHealthy = &healthy
		spec.StormCooldown = ptr.To(duration(time.Minute))
	}
	if w.chance(300) {
		spec.MaxReboots = &v1alpha1.Rate{Count: int32(1 + w.pick(2)), Per: duration(time.Hour)}
	}
	spec.AllowedWindows = nil
	if w.chance(60) { // a run begins at midnight
		spec.AllowedWindows = []v1alpha1.Window{{
			Start: of(w.choices, "00:00", "00:10"), End: of(w.choices, "00:15", "01:00"), TimeZone: of(w.choices, "UTC", "UTC", "UTC", "Olympus/Mons"),
		}}
	}
}

func (w *world) newPolicy(name string) *v1alpha1.RemedyPolicy {
	p := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.NodeSelector = w.selector()
	all := conditions()
	first := w.pick(len(all))
	p.Spec.Match = []v1alpha1.ConditionMatch{w.match(all[first])}
	if w.chance(300) {
		p.Spec.Match = append(p.Spec.Match, w.match(all[1-first]))
	}
	if w.chance(100) {
		p.Spec.Match = append(p.Spec.Match, v1alpha1.ConditionMatch{Type: "Ready", Status: "Unknown", For: duration(time.Minute)})
	}
	if w.agents && w.chance(800) {
		p.Spec.Match = append(p.Spec.Match, v1alpha1.ConditionMatch{
			Type: wornOut, Status: corev1.ConditionTrue, For: duration(of(w.choices, 0, time.Minute)), IgnoreAfter: duration(of(w.choices, time.Hour, time.Hour, time.Hour, 0)),
		})
	}
	if w.flickers && w.chance(800) {
		p.Spec.Match = append(p.Spec.Match, v1alpha1.ConditionMatch{
			Type: linkLost, Status: corev1.ConditionTrue, For: duration(of(w.choices, 0, time.Minute, 4*time.Minute, 4*time.Minute)), Debounce: duration(linkDebounce),
		})
	}
	for range w.inCrowd(0, 1) + w.pick(w.inCrowd(2, 3)) {
		p.Spec.Steps = append(p.Spec.Steps, w.newStep())
	}
	switch {
	case name == deadPolicy:
		w.newDead(p)
	case w.owners != nil && w.chance(500):
		p.Spec.Steps = append(p.Spec.Steps, w.newReplace())
	case len(p.Spec.Steps) == 0 || w.chance(w.inCrowd(800, 300)):
		p.Spec.Steps = append(p.Spec.Steps, v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "search", Drain: w.newDrain()}})
	}
	p.Spec.Recovery = v1alpha1.Recovery{HealthyFor: duration(of(w.choices, 30*time.Second, 3*time.Minute))}
	p.Spec.Cooldown = ptr.To(duration(of(w.choices, 0, time.Minute, 10*time.Minute)))
	p.Spec.MaxRemediations = &v1alpha1.Rate{Count: int32(of(w.choices, 100, 3, 1)), Per: duration(time.Hour)}
	p.Spec.DelayAfterJoin = ptr.To(duration(of(w.choices, 0, 0, 0, 2*time.Minute)))
	if w.chance(60) {
		p.Spec.Mode = v1alpha1.ModeDryRun
	}
	if w.chance(60) {
		p.Spec.Recovery.Release = v1alpha1.ReleaseManual
	}
	return p
}

// firstMatch is the condition of a policy's first entry; a policy that is asked for has none, and its
// drivers look at all.
func firstMatch(p *v1alpha1.RemedyPolicy) string {
	if len(p.Spec.Match) == 0 {
		return conditions()[0]
	}
	return p.Spec.Match[0].Type
}

func (w *world) match(condition string) v1alpha1.ConditionMatch {
	return v1alpha1.ConditionMatch{Type: condition, Status: corev1.ConditionTrue, For: duration(of(w.choices, 0, 0, time.Minute, 3*time.Minute))}
}

func (w *world) newStep() v1alpha1.Step {
	s := v1alpha1.Step{
		Timeout:       duration(of(w.choices, 20*time.Second, 2*time.Minute)),
		VerifyTimeout: duration(of(w.choices, time.Minute, 3*time.Minute)),
		Attempts:      int32(1 + w.pick(2)),
	}
	s.RequireApproval = w.chance(50)
	remedies := []int{1, 1, w.inCrowd(4, 1)}
	if w.remediators != nil {
		remedies = append(remedies, 6)
	}
	switch w.weighted(remedies) {
	case 0:
		s.Command = &v1alpha1.CommandRemedy{Argv: []string{of(w.choices, "/bin/a", "/bin/b")}}
	case 1:
		s.RestartUnit = &v1alpha1.RestartUnitRemedy{Name: of(w.choices, "a.service", "b.service")}
	case 3:
		s.External, s.Timeout = external().External, duration(of(w.choices, 3*time.Minute, 10*time.Minute))
		s.External.Drain = w.newDrain()
	default:
		s.Reboot = &v1alpha1.RebootRemedy{Drain: w.newDrain()}
		s.Timeout = duration(10 * time.Minute)
	}
	return s
}

// newReplace returns a step that has the node's machine replaced.
func (w *world) newReplace() v1alpha1.Step {
	s := replace()
	s.Timeout, s.Attempts, s.RequireApproval = duration(of(w.choices, 10*time.Minute, 30*time.Minute)), int32(1+w.pick(2)), w.chance(50)
	s.Replace.Drain = w.newDrain()
	return s
}

// newDrain returns how a node is drained; nil: not at all.
func (w *world) newDrain() *v1alpha1.Drain {
	if w.chance(500) {
		return nil
	}
	d := &v1alpha1.Drain{
		Timeout:   duration(of(w.choices, 30*time.Second, 10*time.Minute)),
		OnTimeout: of(w.choices, v1alpha1.OnTimeoutProceed, v1alpha1.OnTimeoutAbort, v1alpha1.OnTimeoutWait),
	}
	if w.chance(500) {
		d.VetoedBy = &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{vetoLabel: "true"}}
	}
	return d
}
