//go:build e2e

package machine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/vm"
)

// kubelet plays that of a machine: while the machine answers, and has a cable, it reports
// that the Node is Ready, with the machine's own boot ID. It runs no pods.
type kubelet struct {
	client  client.Client
	machine *vm.Machine
	name    string
	cutOff  atomic.Bool
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func startKubelet(ctx context.Context, c client.Client, machine *vm.Machine, name string) *kubelet {
	ctx, cancel := context.WithCancel(ctx)
	k := &kubelet{client: c, machine: machine, name: name, cancel: cancel}
	k.done.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			// What fails now works in a second, or the Node shows that it does not.
			_ = k.report(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return k
}

func (k *kubelet) stop() {
	k.cancel()
	k.done.Wait()
}

func (k *kubelet) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if k.cutOff.Load() {
		return nil
	}
	answer, err := k.machine.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	if err != nil || k.cutOff.Load() {
		return err
	}
	node := &corev1.Node{}
	if err := k.client.Get(ctx, types.NamespacedName{Name: k.name}, node); err != nil {
		return err
	}
	base, now := node.DeepCopy(), metav1.Now()
	node.Status.NodeInfo.BootID = strings.TrimSpace(answer)
	ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	if ready == nil {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady})
		ready = v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	}
	if ready.Status != corev1.ConditionTrue {
		ready.LastTransitionTime = now
	}
	ready.Status, ready.Reason, ready.Message, ready.LastHeartbeatTime = corev1.ConditionTrue, "KubeletReady", "the machine answers", now
	if err := k.client.Status().Patch(ctx, node, client.StrategicMergeFrom(base)); err != nil {
		return err
	}
	return k.renewLease(ctx, now)
}

func (k *kubelet) renewLease(ctx context.Context, now metav1.Time) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.name, Namespace: corev1.NamespaceNodeLease}}
	_, err := controllerutil.CreateOrUpdate(ctx, k.client, lease, func() error {
		lease.Spec.HolderIdentity = &k.name
		lease.Spec.LeaseDurationSeconds = new(int32(40))
		lease.Spec.RenewTime = new(metav1.NewMicroTime(now.Time))
		return nil
	})
	return err
}
