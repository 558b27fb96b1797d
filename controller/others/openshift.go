package others

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The machine-config-operator of OpenShift makes a node that it chose for an update what it is to be. Both
// differ until it has; NodeHealthCheck waits for that, too (internal/controller/cluster/upgrade_checker.go).
const (
	currentConfigAnnotation = "machineconfiguration.openshift.io/currentConfig"
	desiredConfigAnnotation = "machineconfiguration.openshift.io/desiredConfig"
)

func machineConfig(node *corev1.Node, _ Step) Hold {
	current, desired := node.Annotations[currentConfigAnnotation], node.Annotations[desiredConfigAnnotation]
	if desired == "" || desired == current {
		return Hold{}
	}
	return Hold{Why: fmt.Sprintf("the machine-config-operator of OpenShift updates node %s from %s to %s", node.Name, current, desired)}
}

// clusterVersion asks whether OpenShift is being upgraded. Only its nodes have a machine config.
func clusterVersion(ctx context.Context, c client.Reader, node *corev1.Node, _ Step) (Hold, error) {
	if node.Annotations[desiredConfigAnnotation] == "" {
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
