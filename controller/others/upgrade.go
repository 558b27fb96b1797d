package others

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controlPlaneLabel is on the nodes of the control plane.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// controlPlane asks whether the control plane is being upgraded: its nodes are of two minor versions only
// while it is. Other nodes may stay behind for months, and many upgrade them one by one.
func controlPlane(ctx context.Context, c client.Reader, _ *corev1.Node, _ Step) (Hold, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.HasLabels{controlPlaneLabel}); err != nil {
		return Hold{}, err
	}
	return upgraded(nodes.Items), nil
}

// upgraded looks at those that are Ready: one that has died in an upgrade is to be healed.
func upgraded(nodes []corev1.Node) Hold {
	var minors, all []string
	for i := range nodes {
		kubelet := nodes[i].Status.NodeInfo.KubeletVersion
		v, err := version.ParseGeneric(kubelet)
		if err != nil || !ready(&nodes[i]) {
			continue
		}
		minors = append(minors, fmt.Sprintf("%d.%d", v.Major(), v.Minor()))
		all = append(all, nodes[i].Name+" "+kubelet)
	}
	slices.Sort(minors)
	if len(slices.Compact(minors)) < 2 {
		return Hold{}
	}
	slices.Sort(all)
	return Hold{Why: "the control plane is being upgraded: its nodes have kubelets of different versions (" + strings.Join(all, ", ") + ")"}
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
