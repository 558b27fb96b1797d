//go:build e2e

package machine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/vm"
)

// kubelet plays that of a machine: while the machine answers, and has a cable, it reports
// that the Node is Ready, with the machine's own boot ID and UUID. It runs no pods but those of
// runPods.
type kubelet struct {
	client  client.Client
	machine *vm.Machine
	name    string
	cutOff  atomic.Bool
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// startKubelet starts one; each of the parts is done each second.
func startKubelet(ctx context.Context, c client.Client, machine *vm.Machine, name string) *kubelet {
	ctx, cancel := context.WithCancel(ctx)
	k := &kubelet{client: c, machine: machine, name: name, cancel: cancel}
	for _, part := range []func(context.Context) error{k.report, k.runPods} {
		k.done.Go(func() {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				// What fails now works in a second, or the Node shows that it does not.
				_ = part(ctx)
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
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
	// A machine without a UUID of its own has no such file.
	answer, err := k.machine.Run(ctx, "cat /proc/sys/kernel/random/boot_id; cat /sys/class/dmi/id/product_uuid 2>/dev/null || true")
	if err != nil || k.cutOff.Load() {
		return err
	}
	bootID, systemUUID, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	node := &corev1.Node{}
	if err := k.client.Get(ctx, types.NamespacedName{Name: k.name}, node); err != nil {
		return err
	}
	base, now := node.DeepCopy(), metav1.Now()
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = bootID, systemUUID
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

// writer is the label of pods that write to the disk, and the program in the machine that does.
const (
	writer        = "writer"
	writerProgram = "/usr/lib/e2e/write"
)

// runPods plays what a kubelet does for the writers of its node: it runs one once its volume is
// attached, and one that is to end it ends. Others it leaves alone.
func (k *kubelet) runPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	if k.cutOff.Load() {
		return nil
	}
	var pods corev1.PodList
	if err := k.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": writer}, client.MatchingFields{"spec.nodeName": k.name}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		var err error
		if pod.DeletionTimestamp != nil {
			err = k.endPod(ctx, pod)
		} else {
			err = k.runPod(ctx, pod)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runPod runs the writer, also in a boot in which it has not run yet.
func (k *kubelet) runPod(ctx context.Context, pod *corev1.Pod) error {
	attached, err := k.attached(ctx)
	if err != nil || !attached {
		return err
	}
	if err := k.setInUse(ctx, volumeInUse); err != nil {
		return err
	}
	if _, err := k.machine.Run(ctx, fmt.Sprintf("systemctl is-active --quiet %[1]s || systemd-run --quiet --collect --unit=%[1]s %s", unitOf(pod), writerProgram)); err != nil || k.cutOff.Load() {
		return err
	}
	base := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return k.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(base))
}

func (k *kubelet) endPod(ctx context.Context, pod *corev1.Pod) error {
	if _, err := k.machine.Run(ctx, fmt.Sprintf("! systemctl is-active --quiet %[1]s || systemctl stop %[1]s", unitOf(pod))); err != nil || k.cutOff.Load() {
		return err
	}
	if err := k.setInUse(ctx); err != nil {
		return err
	}
	return client.IgnoreNotFound(k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}

func unitOf(pod *corev1.Pod) string { return fmt.Sprintf("pod-%s.service", pod.UID) }

// attached reports whether a volume is attached to the node.
func (k *kubelet) attached(ctx context.Context) (bool, error) {
	var all storagev1.VolumeAttachmentList
	err := k.client.List(ctx, &all)
	for i := range all.Items {
		if a := &all.Items[i]; a.Spec.NodeName == k.name && a.Status.Attached && a.DeletionTimestamp == nil {
			return true, err
		}
	}
	return false, err
}

// setInUse says which volumes the node uses: the others may be detached.
func (k *kubelet) setInUse(ctx context.Context, volumes ...corev1.UniqueVolumeName) error {
	node := &corev1.Node{}
	if err := k.client.Get(ctx, types.NamespacedName{Name: k.name}, node); err != nil {
		return err
	}
	base := node.DeepCopy()
	node.Status.VolumesInUse = volumes
	return k.client.Status().Patch(ctx, node, client.MergeFrom(base))
}
