package machines

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
)

// What Karpenter marks its objects with (pkg/apis/v1/labels.go of karpenter).
const (
	karpenterGroup = "karpenter.sh"
	nodePoolLabel  = "karpenter.sh/nodepool"
	// terminationAnnotation, on a NodeClaim, is until when it has to be gone. Karpenter's own repair
	// sets it; it is no interface for others.
	terminationAnnotation = "karpenter.sh/nodeclaim-termination-timestamp"
)

// karpenterVersions are those that are known.
func karpenterVersions() []string { return []string{"v1"} }

// karpenter has the NodeClaims of this cluster.
type karpenter struct{ objects }

// of implements owner. A NodeClaim is found by the providerID, which a Node can't change, and Karpenter
// itself goes by.
func (k karpenter) of(ctx context.Context, node *corev1.Node, _ *v1alpha1.Request) (none runner.Machine, refusal string, err error) {
	name := node.Labels[nodePoolLabel]
	if node.Spec.ProviderID == "" {
		return none, fmt.Sprintf("node %s has no spec.providerID, by which its NodeClaim is found", node.Name), nil
	}
	claims, err := k.claims(ctx, name)
	if err != nil {
		return none, "", err
	}
	var claim *unstructured.Unstructured
	for i := range claims {
		switch is := text(&claims[i], "status", "providerID") == node.Spec.ProviderID; {
		case is && claim != nil:
			return none, fmt.Sprintf("NodeClaims %s and %s have both the providerID of node %s", claim.GetName(), claims[i].GetName(), node.Name), nil
		case is:
			claim = &claims[i]
		}
	}
	if claim == nil {
		return none, fmt.Sprintf("no NodeClaim of NodePool %q has the providerID of node %s, %s", name, node.Name, node.Spec.ProviderID), nil
	}
	if of := text(claim, "status", "nodeName"); of != node.Name {
		return none, fmt.Sprintf("NodeClaim %s has the providerID of node %s, and says that its node is %q", claim.GetName(), node.Name, of), nil
	}
	if refusal = busy(claim); refusal != "" {
		return none, refusal, nil
	}
	pool, err := k.pool(ctx, name)
	if err != nil {
		return none, "", err
	}
	if why := k.makesNone(pool); why != "" {
		return none, fmt.Sprintf("nobody would make a new machine in the place of NodeClaim %s of NodePool %s: %s", claim.GetName(), name, why), nil
	}
	owns := func(ref metav1.OwnerReference) bool { return ref.UID == pool.GetUID() }
	if !slices.ContainsFunc(claim.GetOwnerReferences(), owns) {
		return none, fmt.Sprintf("nobody is known to make a new machine: NodePool %s does not own NodeClaim %s", name, claim.GetName()), nil
	}
	if wants := number(pool, -1, "spec", "replicas"); wants >= 0 && int64(len(claims)) > wants {
		return none, fmt.Sprintf("NodeClaim %s would not be replaced: NodePool %s has %d, and wants %d", claim.GetName(), name, len(claims), wants), nil
	}
	return runner.Machine{Object: named(claim), Owner: named(pool), Method: v1alpha1.ReplaceDelete, Version: claim.GetResourceVersion()}, "", nil
}

// claims are those of a NodePool.
func (k karpenter) claims(ctx context.Context, pool string) ([]unstructured.Unstructured, error) {
	kind := schema.GroupKind{Group: karpenterGroup, Kind: "NodeClaim"}
	claims, served, err := list(ctx, k, kind, karpenterVersions(), client.MatchingLabels{nodePoolLabel: pool})
	if err == nil && !served {
		err = fmt.Errorf("this cluster does not serve NodeClaims of %s/v1, although a node is of NodePool %q", karpenterGroup, pool)
	}
	return claims, err
}

// pool returns the NodePool of this name, nil if there is none.
func (k karpenter) pool(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return read(ctx, k, &v1alpha1.ExternalObject{APIVersion: karpenterGroup + "/v1", Kind: "NodePool", Name: name}, karpenterVersions())
}

// makesNone says why a NodePool makes no new machines.
func (karpenter) makesNone(pool *unstructured.Unstructured) string {
	if pool == nil {
		return "it is gone"
	}
	if at := pool.GetDeletionTimestamp(); at != nil {
		return "it is being deleted since " + stamp(at.Time)
	}
	if ready := conditions(pool)["Ready"]; ready.status == string(metav1.ConditionFalse) {
		return "it is not Ready: " + ready.String()
	}
	return ""
}

// busy says what Karpenter does with a NodeClaim already.
func busy(claim *unstructured.Unstructured) string {
	all, name := conditions(claim), claim.GetName()
	_, terminated := claim.GetAnnotations()[terminationAnnotation]
	truly := func(kind string) bool { return all[kind].status == string(metav1.ConditionTrue) }
	switch {
	case claim.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("NodeClaim %s is being deleted since %s", name, stamp(claim.GetDeletionTimestamp().Time))
	case terminated:
		return fmt.Sprintf("Karpenter is about to delete NodeClaim %s: annotation %s", name, terminationAnnotation)
	case truly("Rebooting"):
		return fmt.Sprintf("Karpenter is rebooting the node of NodeClaim %s", name)
	case truly("DisruptionReason"):
		return fmt.Sprintf("Karpenter is about to replace NodeClaim %s: %s", name, all["DisruptionReason"])
	default:
		return ""
	}
}

// look implements owner.
func (k karpenter) look(ctx context.Context, of *v1alpha1.ReplaceStatus, _ string, _ time.Time) (runner.MachineSeen, error) {
	return k.seen(ctx, of, k.state)
}

// state is what is known of a NodeClaim that is there.
func (karpenter) state(claim *unstructured.Unstructured) runner.MachineSeen {
	seen := runner.MachineSeen{Said: tell(claim, "Drained", "VolumesDetached", "InstanceTerminating")}
	if claim.GetDeletionTimestamp() != nil && text(claim, "spec", "terminationGracePeriod") == "" {
		seen.Said += "; it has no spec.terminationGracePeriod, so Karpenter waits without end for pods that a PodDisruptionBudget or karpenter.sh/do-not-disrupt protects, and for volumes"
	}
	return seen
}

// group implements owner.
func (k karpenter) group(ctx context.Context, of *v1alpha1.ReplaceStatus) (runner.MachineGroup, error) {
	group := runner.MachineGroup{Wants: -1}
	pool, err := k.pool(ctx, of.Owner.Name)
	if err != nil {
		return group, err
	}
	switch {
	case pool == nil || pool.GetDeletionTimestamp() != nil:
		group.Gone = of.Owner.String() + ": " + k.makesNone(pool)
		return group, nil
	case pool.GetUID() != of.Owner.UID:
		group.Gone = of.Owner.String() + ": it was deleted and created again"
		return group, nil
	}
	if wants := number(pool, -1, "spec", "replicas"); wants >= 0 {
		group.Wants = int32(min(wants, 1<<30)) //nolint:gosec // bounded
	}
	claims, err := k.claims(ctx, of.Owner.Name)
	if err != nil {
		return group, err
	}
	for i := range claims {
		if name := text(&claims[i], "status", "nodeName"); claims[i].GetDeletionTimestamp() == nil && name != "" {
			group.Nodes = append(group.Nodes, name)
		}
	}
	return group, nil
}
