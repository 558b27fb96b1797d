//go:build integration

package v1alpha1_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const stolen = "the permit of this node is held by another remediation"

func TestTheAPIServerCapsPermitsByAPlainNumber(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "number", intstr.FromInt32(2))

	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	accept(t, patchStatus(t, c, b, permits("node-b", "r2")))
	refuse(t, patchStatus(t, c, b, permits("node-c", "r3")), "budget exhausted: 3 permits asked in group -, 2 allowed")
	refuse(t, patchStatus(t, c, b, permits("node-c", "r3", "node-d", "r4")), "budget exhausted: 4 permits asked in group -, 2 allowed")
	refuse(t, patchStatus(t, c, b, permits("node-a", nil, "node-c", "r3", "node-d", "r4")), "3 permits asked")
	holds(t, c, b, "node-a", "r1", "node-b", "r2")
}

func TestTheAPIServerCapsEachGroupByItself(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "groups", intstr.FromInt32(1))
	accept(t, patchStatus(t, c, b, group("r6", permitsOf("node-a", "r1"))))
	accept(t, patchStatus(t, c, b, group("r7", permitsOf("node-b", "r2"))))
	refuse(t, patchStatus(t, c, b, group("r7", permitsOf("node-c", "r3"))), "budget exhausted: 2 permits asked in group r7, 1 allowed")
	accept(t, patchStatus(t, c, b, map[string]any{"groups": map[string]any{"r6": nil}}))
	accept(t, patchStatus(t, c, b, group("r6", permitsOf("node-d", "r4"))))
}

func TestTakingAPermitAgainChangesNothing(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "again", intstr.FromInt32(1))
	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	version := b.ResourceVersion
	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	if b.ResourceVersion != version {
		t.Errorf("resource version %s became %s: taking again was a write", version, b.ResourceVersion)
	}
}

func TestThePermitOfAnotherRemediationCannotBeStolen(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "steal", intstr.FromInt32(2))
	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	refuse(t, patchStatus(t, c, b, permits("node-a", "r2")), stolen)
	refuse(t, patchStatus(t, c, b, permits("node-a", "r2", "node-b", "r3")), stolen)
	holds(t, c, b, "node-a", "r1")
}

func TestAPermitIsReleasedByNull(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "release", intstr.FromInt32(1))
	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	accept(t, patchStatus(t, c, b, permits("node-a", nil)))
	holds(t, c, b)
	accept(t, patchStatus(t, c, b, permits("node-b", "r2")))
	accept(t, patchStatus(t, c, b, permits("node-b", nil, "node-c", "r3")))
	holds(t, c, b, "node-c", "r3")
}

func TestALoweredMaximumStaysHeldButAdmitsNobody(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "lowered", intstr.FromInt32(3))
	accept(t, patchStatus(t, c, b, permits("node-a", "r1", "node-b", "r2", "node-c", "r3")))
	accept(t, patchStatus(t, c, b, group("other", permitsOf("node-z", "r9"))))
	accept(t, patch(t, c, b, map[string]any{"spec": map[string]any{"maxConcurrent": 1}}))

	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	refuse(t, patchStatus(t, c, b, permits("node-d", "r4")), "budget exhausted: 4 permits asked in group -, 1 allowed")
	refuse(t, patchStatus(t, c, b, permits("node-a", nil, "node-d", "r4")), "budget exhausted: 3 permits asked in group -, 1 allowed")
	refuse(t, patchStatus(t, c, b, group("other", permitsOf("node-y", "r8"))), "budget exhausted: 2 permits asked in group other, 1 allowed")
	accept(t, patchStatus(t, c, b, permits("node-a", nil)))
	accept(t, patchStatus(t, c, b, permits("node-b", nil)))
	holds(t, c, b, "node-c", "r3")
	refuse(t, patchStatus(t, c, b, permits("node-d", "r4")), "budget exhausted: 2 permits asked in group -, 1 allowed")
}

func TestTheAPIServerCapsAPercentageByTheLimitInTheStatus(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "percentage", intstr.FromString("10%"))
	refuse(t, patchStatus(t, c, b, permits("node-a", "r1")), "budget exhausted: 1 permits asked in group -, 0 allowed")

	limit := func(n int) map[string]any { return group("-", map[string]any{"limit": n}) }
	accept(t, patchStatus(t, c, b, limit(1)))
	accept(t, patchStatus(t, c, b, permits("node-a", "r1")))
	refuse(t, patchStatus(t, c, b, permits("node-b", "r2")), "budget exhausted: 2 permits asked in group -, 1 allowed")

	accept(t, patchStatus(t, c, b, limit(2)))
	accept(t, patchStatus(t, c, b, permits("node-b", "r2")))
	accept(t, patchStatus(t, c, b, limit(0)))
	refuse(t, patchStatus(t, c, b, permits("node-c", "r3")), "budget exhausted: 3 permits asked in group -, 0 allowed")
	refuse(t, patchStatus(t, c, b, limit(-1)), "limit")
}

func TestTheLimitInTheStatusDoesNotRaiseAPlainNumber(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "limit-and-number", intstr.FromInt32(1))
	accept(t, patchStatus(t, c, b, group("-", map[string]any{"limit": 9})))
	refuse(t, patchStatus(t, c, b, permits("node-a", "r1", "node-b", "r2")), "budget exhausted: 2 permits asked in group -, 1 allowed")
}

func TestABudgetOfZeroGivesNoPermit(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "zero", intstr.FromInt32(0))
	refuse(t, patchStatus(t, c, b, permits("node-a", "r1")), "budget exhausted: 1 permits asked in group -, 0 allowed")
}

func TestTheAPIServerCapsPermitsForDisruptiveSteps(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "disruptive", intstr.FromInt32(9))
	disruptive := func(node string, yes bool) map[string]any {
		return group("r7", map[string]any{"permits": map[string]any{node: map[string]any{"remediation": "r-" + node, "disruptive": yes}}})
	}
	limit := func(n any) map[string]any { return group("r7", map[string]any{"disruptionLimit": n}) }
	const asked = "budget exhausted: %d permits for disruptive steps asked in group r7, %d allowed"

	accept(t, patchStatus(t, c, b, disruptive("node-a", true))) // there is no limit
	accept(t, patchStatus(t, c, b, disruptive("node-b", false)))
	accept(t, patchStatus(t, c, b, limit(1)))
	refuse(t, patchStatus(t, c, b, disruptive("node-c", true)), fmt.Sprintf(asked, 2, 1))
	refuse(t, patchStatus(t, c, b, disruptive("node-b", true)), fmt.Sprintf(asked, 2, 1))
	accept(t, patchStatus(t, c, b, disruptive("node-c", false)))
	accept(t, patchStatus(t, c, b, limit(2)))
	accept(t, patchStatus(t, c, b, disruptive("node-b", true)))

	accept(t, patchStatus(t, c, b, limit(0)))
	accept(t, patchStatus(t, c, b, disruptive("node-a", true)))
	refuse(t, patchStatus(t, c, b, disruptive("node-c", true)), fmt.Sprintf(asked, 3, 0))
	accept(t, patchStatus(t, c, b, disruptive("node-a", false)))
	refuse(t, patchStatus(t, c, b, disruptive("node-a", true)), fmt.Sprintf(asked, 2, 0))

	accept(t, patchStatus(t, c, b, limit(nil)))
	accept(t, patch(t, c, b, map[string]any{"spec": map[string]any{"minHealthy": "50%"}}))
	refuse(t, patchStatus(t, c, b, disruptive("node-c", true)), fmt.Sprintf(asked, 2, 0))
}

func TestAFullGroupOfFullSizeFitsTheAPIServersBudgetForRules(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "full", intstr.FromInt32(500))
	all := make([]any, 0, 1000)
	for i := range 500 {
		all = append(all, fmt.Sprintf("node-%d.of-a-rather-long-domain.example.com", i), fmt.Sprintf("node-%d.of-a-rather-long-domain.example.com-0123456789abcdef", i))
	}
	accept(t, patchStatus(t, c, b, permits(all...)))
	refuse(t, patchStatus(t, c, b, permits("one-more", "r")), "must have at most 500 items")
	accept(t, patch(t, c, b, map[string]any{"spec": map[string]any{"maxConcurrent": 1}}))
	accept(t, patchStatus(t, c, b, permits(all[0], nil)))
	refuse(t, patchStatus(t, c, b, permits("one-more", "r")), "budget exhausted: 500 permits asked in group -, 1 allowed")

	groups := map[string]any{}
	for i := range 150 {
		groups[fmt.Sprintf("rack-%d", i)] = map[string]any{"limit": 1, "disruptionLimit": 0, "nodes": 40}
	}
	accept(t, patchStatus(t, c, createBudget(t, c, "racks", intstr.FromString("10%")), map[string]any{"groups": groups}))
}

// group is a change of the state of a group of a budget.
func group(name string, change map[string]any) map[string]any {
	return map[string]any{"groups": map[string]any{name: change}}
}

// permitsOf is a change of the permits of a group, as permits has them.
func permitsOf(pairs ...any) map[string]any {
	return permits(pairs...)["groups"].(map[string]any)[v1alpha1.UngroupedNodes].(map[string]any)
}

func TestThePauseOfTheClusterSelectsAllNodes(t *testing.T) {
	c := newClient(t)
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}}
	b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
	const wrong = "the budget nodemend-pause pauses the whole cluster"
	refuse(t, c.Create(t.Context(), b), wrong)
	b.Spec.NodeSelector = nil
	accept(t, c.Create(t.Context(), b))
	selector := map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"pool": "workers"}}}
	refuse(t, patch(t, c, b, map[string]any{"spec": selector}), wrong)
	accept(t, patch(t, c, b, map[string]any{"spec": map[string]any{"paused": true}}))

	other := createBudget(t, c, "other", intstr.FromInt32(1))
	accept(t, patch(t, c, other, map[string]any{"spec": selector}))
}
