package others

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

const (
	// excludeLabel, "true" on a node: NodeHealthCheck leaves it alone. People set it, and
	// node-maintenance-operator does for as long as its maintenance lasts.
	excludeLabel = "remediation.medik8s.io/exclude-from-remediation"
	// confirmedAnnotation, with any value, is a person's word to NodeHealthCheck that the node is healthy
	// (docs/configuration.md of node-healthcheck-operator, healthyDelay). It goes with the remediation.
	confirmedAnnotation = "remediation.medik8s.io/manually-confirmed-healthy"
	// remediationTaints is the prefix of the taints of the remediators: …/self-node-remediation since its
	// 0.12, …/fence-agents-remediation since its 0.7.
	remediationTaints = "remediation.medik8s.io/"
	// remediationTaint and fenceTaint were theirs before.
	remediationTaint, fenceTaint = "medik8s.io/remediation", "medik8s.io/fence-agents-remediation"
	// drainTaint is node-maintenance-operator's (controllers/taint.go).
	drainTaint = "medik8s.io/drain"
	// leaseNamespace and the name node-NODE are those of the Lease by which NodeHealthCheck and
	// node-maintenance-operator agree (medik8s/common, pkg/lease/manager.go).
	leaseNamespace = "medik8s-leases"
	// LeaseHolder is who holds it for Nodemend.
	LeaseHolder = "nodemend"
)

// LeaseOf names the Lease of medik8s for a node.
func LeaseOf(node string) types.NamespacedName {
	return types.NamespacedName{Namespace: leaseNamespace, Name: strings.ToLower("node-" + node)}
}

func excluded(node *corev1.Node, _ Step) Hold {
	if node.Labels[excludeLabel] != "true" {
		return Hold{}
	}
	return Hold{Gentle: true, Why: fmt.Sprintf("node %s is labelled %s=true, by a person or a NodeMaintenance of medik8s; to undo: kubectl label node %[1]s %[2]s-",
		node.Name, excludeLabel)}
}

func remediated(node *corev1.Node, _ Step) Hold {
	for i := range node.Spec.Taints {
		switch key := node.Spec.Taints[i].Key; {
		case key == drainTaint:
			return Hold{Why: fmt.Sprintf("a NodeMaintenance of medik8s has node %s: it has the taint %s", node.Name, key)}
		case strings.HasPrefix(key, remediationTaints), key == remediationTaint, key == fenceTaint:
			return Hold{Why: fmt.Sprintf("a remediator of medik8s has node %s: it has the taint %s", node.Name, key)}
		}
	}
	return Hold{}
}

func confirmedHealthy(node *corev1.Node, _ Step) Hold {
	if _, said := node.Annotations[confirmedAnnotation]; !said {
		return Hold{}
	}
	return Hold{Why: fmt.Sprintf("a person has told NodeHealthCheck that node %s is healthy; to undo: kubectl annotate node %[1]s %s-",
		node.Name, confirmedAnnotation)}
}

// medik8sLease asks who holds the node for medik8s.
func medik8sLease(ctx context.Context, c client.Reader, node *corev1.Node, step Step) (Hold, error) {
	var lease coordinationv1.Lease
	if err := c.Get(ctx, LeaseOf(node.Name), &lease); err != nil {
		return Hold{}, err
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && step.Request != nil && drives(*holder, step.Request) {
		return Hold{}, nil
	}
	return LeaseHeld(&lease, node.Name, step.Now), nil
}

// drives reports whether the holder of a Lease is the NodeHealthCheck that has made the request
// (internal/controller/resources/lease.go of node-healthcheck-operator).
func drives(holder string, request *v1alpha1.Request) bool {
	name, is := strings.CutPrefix(holder, "NodeHealthCheck-")
	return is && request.OwnedBy("remediation.medik8s.io", "NodeHealthCheck", name)
}

// LeaseHeld says who else holds the node by a Lease. medik8s goes by the clock of who renewed that. If that is
// behind, the Lease lasts for its time from when the API server has it.
func LeaseHeld(lease *coordinationv1.Lease, node string, now time.Time) Hold {
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == LeaseHolder || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return Hold{}
	}
	renewed := spec.RenewTime.Time
	if written := v1alpha1.LeaseRenewed(lease); written.After(renewed) {
		renewed = written
	}
	until := renewed.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	if !until.Add(evidence.MaxSkew).After(now) {
		return Hold{}
	}
	return Hold{Why: fmt.Sprintf("%s of medik8s holds node %s until %s at the latest, by Lease %s/%s",
		*spec.HolderIdentity, node, stamp(until), lease.Namespace, lease.Name)}
}
