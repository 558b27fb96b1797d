// Package others knows the programs beside Nodemend that repair, replace, drain or upgrade
// nodes: how they mark a node that they have, and which of their objects say so.
//
// [OnNode] asks what the Node itself carries, without any request. [Ask] asks their objects, one
// by one, when a disruptive step is about to start. A program that is not in the cluster costs
// nothing but that its objects are not found.
package others

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Hold is what keeps Nodemend from a node. The zero value: nothing does.
type Hold struct {
	// Why tells people who has the node, what shows it and, where somebody can end it, how; "": nobody
	// has it.
	Why string
	// Gentle: it is about steps that take nothing out of service, too.
	Gentle bool
	// Left is after how long it is over; 0: when somebody changes something. OnNode alone tells it.
	Left time.Duration
}

// Step is when a step would start, and how long it may last.
type Step struct {
	Now   time.Time
	Takes time.Duration
	// Request is by whom it was asked for; nil: by nobody. What the driver has marked the node with is
	// no reason to wait for the driver.
	Request *v1alpha1.Request

	// live: the node is as the API server has it, with its managed fields.
	live bool
}

// OnNode asks what the node carries. Of its annotations it reads those of [Annotations]. What only the managed
// fields of a node tell it leaves to [Ask].
func OnNode(node *corev1.Node, step Step) Hold {
	for _, sign := range []func(*corev1.Node, Step) Hold{excluded, remediated, confirmedHealthy, kuredReboots, machineConfig, repairIsNear} {
		if hold := sign(node, step); hold.Why != "" {
			return hold
		}
	}
	return Hold{}
}

// Annotations are those of nodes that OnNode reads.
func Annotations() []string {
	return []string{confirmedAnnotation, kuredAnnotation, currentConfigAnnotation, desiredConfigAnnotation, DoNotRepairAnnotation, v1alpha1.RepairHeldAnnotation}
}

// source is an object of another program. Asked of a node as the API server has it, it says what holds.
type source struct {
	// what is asked, for errors.
	what string
	ask  func(context.Context, client.Reader, *corev1.Node, Step) (Hold, error)
}

func sources() []source {
	return []source{
		{"the Lease of medik8s", medik8sLease},
		{"the Machine of Cluster API", machine},
		{"the NodeClaim of Karpenter", nodeClaim},
		{"the ClusterVersion of OpenShift", clusterVersion},
		{"the nodes of the control plane", controlPlane},
		{"the lock of kured", kuredLock},
	}
}

// answerTime is how long an answer is waited for: where the kinds of another program have a webhook
// that converts them, its pod may be on the dead node. Who asks has other things to do, too.
const answerTime = 5 * time.Second

// inTime calls ask, which has to answer within answerTime.
func inTime(ctx context.Context, ask func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := ask(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("no answer within %s: %w", answerTime, err)
	}
	return err
}

// Ask asks the API server whether another program has the node of this name, or a person has excluded it from
// all, by what the node carries now, and by their objects. What does not exist says nothing. What cannot be
// read, or not in time, is an error: nobody knows then. Of a node that is gone or another one, others have nothing.
func Ask(ctx context.Context, live client.Reader, name string, uid types.UID, step Step) (Hold, error) {
	var node corev1.Node
	err := inTime(ctx, func(ctx context.Context) error { return live.Get(ctx, types.NamespacedName{Name: name}, &node) })
	if apierrors.IsNotFound(err) || err == nil && node.UID != uid {
		return Hold{}, nil
	}
	if err != nil {
		return Hold{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	step.live = true
	if v1alpha1.Excluded(&node) { // which the gate before may have asked of a cache that is behind
		return Hold{Gentle: true, Why: fmt.Sprintf("node %s is labelled %s=true; to undo: kubectl nodemend include %[1]s", name, v1alpha1.ExcludeLabel)}, nil
	}
	if hold := OnNode(&node, step); hold.Why != "" {
		return hold, nil
	}
	for _, s := range sources() {
		var hold Hold
		err := inTime(ctx, func(ctx context.Context) (err error) {
			hold, err = s.ask(ctx, live, &node, step)
			return err
		})
		if err != nil && !absent(err) {
			return Hold{}, fmt.Errorf("asking %s about node %s: %w", s.what, name, err)
		}
		if hold.Why != "" {
			return hold, nil
		}
	}
	return Hold{}, nil
}

// absent reports whether the object, or its kind, does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// stamp is how messages show a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
