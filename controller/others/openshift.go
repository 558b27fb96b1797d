package others

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The machine-config-operator of OpenShift makes a node that it chose for an update what it is to be. Both
// differ until it has; NodeHealthCheck waits for that, too (internal/controller/cluster/upgrade_checker.go).
const (
	currentConfigAnnotation = "machineconfiguration.openshift.io/currentConfig"
	desiredConfigAnnotation = "machineconfiguration.openshift.io/desiredConfig"
	// updateHangs is for how long a node that is updated may be away. A server boots for 20 minutes at
	// most. After that the upgrade waits for the node, and the node for somebody who heals it.
	updateHangs = time.Hour
)

func machineConfig(node *corev1.Node, step Step) Hold {
	current, desired := node.Annotations[currentConfigAnnotation], node.Annotations[desiredConfigAnnotation]
	if desired == "" || desired == current {
		return Hold{}
	}
	left, hangs := updateLeft(node, step.Now)
	if hangs {
		return Hold{}
	}
	return Hold{Left: left, Why: fmt.Sprintf("the machine-config-operator of OpenShift updates node %s from %s to %s", node.Name, current, desired)}
}

// updateLeft returns after how long an update counts as one that hangs; 0: it does not, while the node is
// Ready.
func updateLeft(node *corev1.Node, now time.Time) (left time.Duration, hangs bool) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			left = c.LastTransitionTime.Add(updateHangs).Sub(now)
			return max(left, 0), left <= 0
		}
	}
	return 0, false
}

// clusterVersion asks whether OpenShift is being upgraded. Only its nodes have a machine config. An upgrade
// waits for a node that hangs in it, so that one is not held.
func clusterVersion(ctx context.Context, c client.Reader, node *corev1.Node, step Step) (Hold, error) {
	if _, hangs := updateLeft(node, step.Now); hangs || node.Annotations[desiredConfigAnnotation] == "" {
		return Hold{}, nil
	}
	version, err := get(ctx, c, "config.openshift.io", "ClusterVersion", []string{"v1"}, types.NamespacedName{Name: "version"})
	if err != nil {
		return Hold{}, err
	}
	if conditions(version)["Progressing"] == corev1.ConditionTrue {
		return Hold{Why: "OpenShift is being upgraded: ClusterVersion version is Progressing"}, nil
	}
	return Hold{}, nil
}
