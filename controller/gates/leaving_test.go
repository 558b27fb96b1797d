package gates

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestNodeLeaving(t *testing.T) {
	tainted := func(keys ...string) Input {
		return input(func(in *Input) {
			for _, key := range keys {
				in.Node.Spec.Taints = append(in.Node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
			}
		})
	}
	runGate(t, NodeLeaving, []gateTest{
		{name: "staying", in: input()},
		{name: "being deleted", in: input(func(in *Input) { in.Node.DeletionTimestamp = ptr.To(ago(time.Hour)) }),
			reason: "NodeLeaving", messages: []string{"node w17 is being deleted since 2026-03-04T11:00:00Z"}},
		{name: "removed by cluster-autoscaler", in: tainted("dedicated", "ToBeDeletedByClusterAutoscaler"),
			reason: "NodeLeaving", messages: []string{"cluster-autoscaler is removing node w17: it has the taint ToBeDeletedByClusterAutoscaler"}},
		{name: "candidate of cluster-autoscaler", in: tainted("DeletionCandidateOfClusterAutoscaler")},
		{name: "removed by Karpenter", in: tainted("karpenter.sh/disrupted"),
			reason: "NodeLeaving", messages: []string{"Karpenter is removing node w17: it has the taint karpenter.sh/disrupted"}},
		{name: "removed by Karpenter before v1", in: tainted("karpenter.sh/disruption"),
			reason: "NodeLeaving", messages: []string{"karpenter.sh/disruption"}},
		{name: "other taints", in: tainted("node.kubernetes.io/unreachable", "karpenter.sh/unregistered")},
	})
}
