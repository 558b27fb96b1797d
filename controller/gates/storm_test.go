package gates

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestStorm(t *testing.T) {
	raging := rack(9, v1alpha1.BudgetGroup{Nodes: 40, Healthy: 24, Storm: &v1alpha1.Storm{Since: ago(time.Hour)}})
	calm := func(since time.Duration) func(*Input) {
		return rack(9, v1alpha1.BudgetGroup{Nodes: 40, Healthy: 30, Storm: &v1alpha1.Storm{Since: ago(time.Hour), CalmSince: ptr.To(ago(since))}})
	}
	elsewhere := func(in *Input) { in.Node.Labels["rack"] = "r8" }
	cooldown := func(in *Input) { in.Budgets[0].Spec.StormCooldown = duration(20 * time.Minute) }
	remedy := func(step v1alpha1.Step) func(*Input) {
		return func(in *Input) { in.Remediation.Spec.Steps[2] = step }
	}
	draining := remedy(v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Drain: &v1alpha1.Drain{}}})
	maintenance := remedy(v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{}})
	replaces := remedy(v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}})
	out := func(drain *v1alpha1.Drain) func(*Input) {
		return func(in *Input) {
			in.Maintenance = &v1alpha1.NodeMaintenance{Spec: v1alpha1.NodeMaintenanceSpec{Drain: drain}}
			in.Maintenance.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue}}
		}
	}
	runGate(t, Storm, []gateTest{
		{name: "none", in: input(rack(9, v1alpha1.BudgetGroup{}), limits("", "66%"), atStep(3))},
		{name: "raging", in: input(raging, limits("", "66%"), atStep(3)), reason: "Storm", recheck: time.Minute,
			messages: []string{"budget workers: 24 of 40 nodes of group r7 are healthy, spec.minHealthy requires 66%; since 2026-03-04T11:00:00Z"}},
		{name: "a gentle step", in: input(raging, limits("", "66%"))},
		{name: "a reboot of a node that is out already", in: input(raging, limits("", "66%"), atStep(3), notReady)},
		{name: "with a drain", in: input(raging, limits("", "66%"), atStep(3), notReady, draining), reason: "Storm", recheck: time.Minute},
		{name: "with a drain that is over", in: input(raging, limits("", "66%"), atStep(3), notReady, draining, out(&v1alpha1.Drain{}))},
		{name: "with a drain after a step without", in: input(raging, limits("", "66%"), atStep(3), notReady, draining, out(nil)), reason: "Storm", recheck: time.Minute},
		{name: "a maintenance of a node that is out already", in: input(raging, limits("", "66%"), atStep(3), notReady, maintenance), reason: "Storm", recheck: time.Minute},
		{name: "of one that we took out", in: input(raging, limits("", "66%"), atStep(3), notReady, maintenance, out(nil))},
		{name: "a replacement of a node that is out already", in: input(raging, limits("", "66%"), atStep(3), notReady, replaces, out(nil)), reason: "Storm", recheck: time.Minute},
		{name: "in another group", in: input(raging, limits("", "66%"), elsewhere, atStep(3))},
		{name: "minHealthy was taken away", in: input(raging, atStep(3))},
		{name: "calm for some time", in: input(calm(6*time.Minute), limits("", "66%"), cooldown, atStep(3)), reason: "Storm", recheck: 14 * time.Minute,
			messages: []string{"too few nodes of group r7 were healthy from 2026-03-04T11:00:00Z to 2026-03-04T11:54:00Z; nothing is disrupted before 2026-03-04T12:14:00Z (spec.stormCooldown)"}},
		{name: "calm for the default", in: input(calm(15*time.Minute), limits("", "66%"), atStep(3))},
		{name: "calm for long", in: input(calm(20*time.Minute), limits("", "66%"), cooldown, atStep(3))},
	})
}
