package others

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
)

const (
	karpenterGroup = "karpenter.sh"
	// NodePoolLabel is on the nodes that Karpenter may repair (newCandidate in pkg/controllers/disruption).
	NodePoolLabel = "karpenter.sh/nodepool"
	// DoNotRepairAnnotation is "true" on a node that Karpenter since 1.15 does not repair
	// (pkg/controllers/disruption/repair.go). Of one that is registered that of its NodeClaim is not read.
	DoNotRepairAnnotation = "karpenter.sh/do-not-repair"
	// terminationAnnotation, on a NodeClaim, is until when it has to be gone.
	terminationAnnotation = "karpenter.sh/nodeclaim-termination-timestamp"
	// repairGrace is for how long a repair that is due is waited for. Nobody can see whether Karpenter's
	// feature gate NodeRepair is on: if nothing has happened by then, it is off, or its budget is used up.
	repairGrace = 10 * time.Minute
)

// repair is a condition for which a provider of Karpenter repairs a node, and how long it waits.
type repair struct {
	condition string
	status    corev1.ConditionStatus
	after     time.Duration
}

// repairs returns what the provider that made the node repairs it for: RepairPolicies in pkg/cloudprovider of
// karpenter-provider-aws and karpenter-provider-azure, by the label of their NodeClass. EKS Auto Mode has those
// of AWS (EKS user guide, node-repair).
func repairs(node *corev1.Node) []repair {
	has := func(label string) bool { _, is := node.Labels[label]; return is }
	switch {
	case has("karpenter.k8s.aws/ec2nodeclass"), has("eks.amazonaws.com/nodeclass"):
		return []repair{
			{"Ready", corev1.ConditionFalse, 30 * time.Minute},
			{"Ready", corev1.ConditionUnknown, 30 * time.Minute},
			{"AcceleratedHardwareReady", corev1.ConditionFalse, 10 * time.Minute},
			{"StorageReady", corev1.ConditionFalse, 30 * time.Minute},
			{"NetworkingReady", corev1.ConditionFalse, 30 * time.Minute},
			{"KernelReady", corev1.ConditionFalse, 30 * time.Minute},
			{"ContainerRuntimeReady", corev1.ConditionFalse, 30 * time.Minute},
		}
	case has("karpenter.azure.com/aksnodeclass"):
		return []repair{
			{"Ready", corev1.ConditionFalse, 10 * time.Minute},
			{"Ready", corev1.ConditionUnknown, 10 * time.Minute},
		}
	default:
		return nil
	}
}

// DoNotRepairIsOurs reports whether the annotation of a node that has our mark is as Nodemend has set it. The node
// has its managed fields.
func DoNotRepairIsOurs(node *corev1.Node) bool {
	annotation := func(key string) fieldpath.Path { return fieldpath.MakePathOrDie("metadata", "annotations", key) }
	return fieldmanager.Ours(node.ManagedFields, annotation(DoNotRepairAnnotation), annotation(v1alpha1.RepairHeldAnnotation))
}

// repairIsNear holds a step that would not be over before Karpenter repairs the node, if it does. Where people
// have forbidden it, nothing is waited for. What Nodemend has forbidden may be to a Karpenter that is older.
func repairIsNear(node *corev1.Node, step Step) Hold {
	leave := fmt.Sprintf("kubectl annotate node %s %s=true", node.Name, DoNotRepairAnnotation)
	if node.Annotations[DoNotRepairAnnotation] == "true" {
		_, marked := node.Annotations[v1alpha1.RepairHeldAnnotation]
		// People may have written it over ours, which is not in a cache: Ask sees it.
		if !marked || !step.live || !DoNotRepairIsOurs(node) {
			return Hold{}
		}
		leave = fmt.Sprintf("kubectl annotate node %s %s- (then %s stays until you remove it)", node.Name, v1alpha1.RepairHeldAnnotation, DoNotRepairAnnotation)
	}
	for _, r := range repairs(node) {
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			if string(c.Type) != r.condition || c.Status != r.status {
				continue
			}
			due := c.LastTransitionTime.Add(r.after)
			if until := due.Add(repairGrace); due.Before(step.Now.Add(step.Takes)) && until.After(step.Now) {
				return Hold{Left: until.Sub(step.Now), Why: fmt.Sprintf(
					"Karpenter repairs node %s at %s, if its NodeRepair is on: %s=%s since %s; to leave that to Nodemend, with Karpenter 1.15 or newer: %s",
					node.Name, stamp(due), c.Type, c.Status, stamp(c.LastTransitionTime.Time), leave)}
			}
		}
	}
	return Hold{}
}

// nodeClaim asks the NodeClaim that owns the node (UpdateNodeOwnerReferences in pkg/utils/nodeclaim of Karpenter).
func nodeClaim(ctx context.Context, c client.Reader, node *corev1.Node, _ Step) (Hold, error) {
	for _, owner := range node.OwnerReferences {
		if owner.Kind != "NodeClaim" || !strings.HasPrefix(owner.APIVersion, karpenterGroup+"/") {
			continue
		}
		claim, err := get(ctx, c, karpenterGroup, owner.Kind, []string{"v1"}, types.NamespacedName{Name: owner.Name})
		if err != nil {
			return Hold{}, err
		}
		return claimHeld(claim, node.Name), nil
	}
	return Hold{}, nil
}

func claimHeld(claim *unstructured.Unstructured, node string) Hold {
	held := func(why string) Hold {
		return Hold{Why: fmt.Sprintf("Karpenter %s: NodeClaim %s", fmt.Sprintf(why, node), claim.GetName())}
	}
	_, terminated := claim.GetAnnotations()[terminationAnnotation]
	found := conditions(claim)
	switch {
	case claim.GetDeletionTimestamp() != nil:
		return held("is deleting node %s")
	case terminated:
		return held("is about to delete node %s")
	case found["Rebooting"] == corev1.ConditionTrue:
		return held("is rebooting node %s")
	case found["DisruptionReason"] == corev1.ConditionTrue:
		return held("is about to replace node %s")
	default:
		return Hold{}
	}
}
