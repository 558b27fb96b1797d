package offline

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// suspicion is something of a valid object that may not be meant.
type suspicion struct{ field, message string }

// day is how long a time may be that nobody doubts.
const day = 24 * time.Hour

// selfNodeTime is what SelfNodeRemediation needs at least (its internal/reboot/calculator.go).
const selfNodeTime = 5 * time.Minute

// runs of its check are what a condition may need to become clear.
const runs = 2

// suspicions returns what may not be meant in a policy, beside how it goes with others.
func (k *Known) suspicions(p *v1alpha1.RemedyPolicySpec) (found []suspicion) {
	add := func(field, format string, args ...any) {
		found = append(found, suspicion{field, fmt.Sprintf(format, args...)})
	}
	long := func(field string, d *v1alpha1.Duration) { found = append(found, tooLong(field, d)...) }
	if p.NodeSelector == nil {
		add("spec.nodeSelector", "left out: the policy applies to all nodes, control-plane nodes too")
	}
	if last := len(p.Steps) - 1; len(p.Match) == 0 && last >= 0 && p.Steps[last].Final() {
		add(fmt.Sprintf("spec.steps[%d].maintenance", last), "lasts until whoever has asked finds the node healthy, and never tells that all was in vain: leave it out where another remediator is to follow")
	}
	var slowest time.Duration // interval of a check
	var slow string
	for i := range p.Match {
		m := &p.Match[i]
		if doubt := k.doubt(m.Type); doubt != "" {
			add(fmt.Sprintf("spec.match[%d].type", i), "%s", doubt)
			if m.Status == corev1.ConditionUnknown && !saysHealthy(p.Match, m.Type) {
				add(fmt.Sprintf("spec.match[%d].status", i), "\"False\" counts as healthy, as in conditions of node-problem-detector; if \"True\" is, add healthy: \"True\"")
			}
		}
		if interval := k.Conditions[m.Type]; interval > slowest {
			slowest, slow = interval, m.Type
		}
		long(fmt.Sprintf("spec.match[%d].for", i), &m.For)
		if interval := k.Conditions[m.Type]; interval > 0 && m.Debounces() { // of a check of ours
			add(fmt.Sprintf("spec.match[%d].debounce", i), "is not needed: the check of %s, which runs every %s, has thresholds of its own and sets lastTransitionTime only when the status changes",
				m.Type, short(interval))
		}
		if m.Debounces() && m.Debounce.Duration > m.For.Duration {
			add(fmt.Sprintf("spec.match[%d].debounce", i), "%s is longer than for, %s: two reports of the fault are enough to start, whatever was between them",
				short(m.Debounce.Duration), short(m.For.Duration))
		}
		if needs := stepsTake(p.Steps); m.IgnoreAfter.Duration > 0 && m.IgnoreAfter.Duration < m.For.Duration+needs {
			add(fmt.Sprintf("spec.match[%d].ignoreAfter", i), "%s may be over before all steps are done, which take up to %s after for: no step is taken after that",
				short(m.IgnoreAfter.Duration), short(needs))
		}
	}
	for i := range p.Steps {
		s, at := &p.Steps[i], fmt.Sprintf("spec.steps[%d]", i)
		long(at+".timeout", &s.Timeout)
		long(at+".verifyTimeout", &s.VerifyTimeout)
		if drain := s.Drain(); drain != nil {
			long(at+"."+s.Remedy()+".drain.timeout", &drain.Timeout)
		}
		if s.External != nil && s.External.TemplateRef.ObjectKind() == "SelfNodeRemediation" && s.Timeout.Duration < selfNodeTime {
			add(at+".timeout", "%s may be over before SelfNodeRemediation takes the node for rebooted: 3m in a small cluster, 5m with 1,000 nodes; then the node boots", short(s.Timeout.Duration))
		}
		if s.Replaces() && !s.RequireApproval {
			add(at+".requireApproval", "left out: the machine is deleted, with what is on its disks, and no person has looked at it before")
		}
		if !s.Final() && s.VerifyTimeout.Duration < runs*slowest {
			add(at+".verifyTimeout", "%s is shorter than two runs of the check of %s, %s apart: the next step may start although this one has helped",
				short(s.VerifyTimeout.Duration), slow, short(slowest))
		}
	}
	long("spec.recovery.healthyFor", &p.Recovery.HealthyFor)
	long("spec.cooldown", p.Cooldown)
	long("spec.delayAfterJoin", p.DelayAfterJoin)
	if p.MaxRemediations != nil && p.MaxRemediations.Count == 0 {
		add("spec.maxRemediations.count", "0 allows no remediation to act, ever")
	}
	return found
}

// unasked warns of policies that neither a condition starts nor a template in the same files names.
func unasked(policies []placedPolicy, valid []Valid) (warnings []Problem) {
	for _, p := range policies {
		if p.at == nil || len(p.Spec.Match) > 0 || slices.ContainsFunc(valid, func(v Valid) bool {
			named, _, _ := unstructured.NestedString(v.Object, "spec", "template", "spec", "policy")
			return v.Object["kind"] == "NodemendRemediationTemplate" && named == p.Name
		}) {
			continue
		}
		warning := p.at("spec.match")
		warning.Message = "left out: no condition starts the policy, only a NodemendRemediation of another program does"
		warnings = append(warnings, warning)
	}
	return warnings
}

// stepsTake returns how long all attempts of the steps take at most, until the last one begins
// or is over. The wait for permits and people is not counted.
func stepsTake(steps []v1alpha1.Step) (all time.Duration) {
	for i := range steps {
		s := &steps[i]
		if drain := s.Drain(); drain != nil {
			all += drain.Timeout.Duration
		}
		if !s.Final() {
			all += time.Duration(max(s.Attempts, 1)) * (s.Timeout.Duration + s.VerifyTimeout.Duration)
		}
	}
	return all
}

// saysHealthy reports whether an entry of this type tells which status is healthy.
func saysHealthy(match []v1alpha1.ConditionMatch, conditionType string) bool {
	return slices.ContainsFunc(match, func(m v1alpha1.ConditionMatch) bool {
		return m.Type == conditionType && (m.Healthy != "" || m.Status != corev1.ConditionUnknown)
	})
}

// budgetSuspicions returns what may not be meant in a budget.
func budgetSuspicions(b *v1alpha1.RemediationBudgetSpec) (found []suspicion) {
	add := func(field, message string) { found = append(found, suspicion{field, message}) }
	if concurrent := b.Concurrent(); isZero(&concurrent) {
		add("spec.maxConcurrent", "0 lets no action through, ever; the off switch is spec.paused")
	}
	if isZero(b.MaxUnavailable) {
		add("spec.maxUnavailable", "0 lets no reboot and no maintenance through, ever")
	}
	if b.MinHealthy != nil && b.MinHealthy.Type == intstr.String && b.MinHealthy.StrVal == "100%" {
		add("spec.minHealthy", "100% lets no reboot and no maintenance through, ever: the node that needs it is not healthy")
	}
	if b.MaxReboots != nil && b.MaxReboots.Count == 0 {
		add("spec.maxReboots.count", "0 lets no reboot through, ever")
	}
	return append(found, tooLong("spec.stormCooldown", b.StormCooldown)...)
}

func isZero(limit *intstr.IntOrString) bool {
	return limit != nil && (limit.Type == intstr.Int && limit.IntVal == 0 || limit.Type == intstr.String && limit.StrVal == "0%")
}

// tooLong doubts a time that is longer than a day.
func tooLong(field string, d *v1alpha1.Duration) []suspicion {
	if d == nil || d.Duration <= day {
		return nil
	}
	return []suspicion{{field, short(d.Duration) + " is longer than a day: is that meant?"}}
}

// short is a duration without its zeros, 5m for 5m0s.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return d.String()
	}
}
