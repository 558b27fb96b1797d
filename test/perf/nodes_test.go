//go:build integration

package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// sick is the condition that the policy matches, other one that it does not.
	sick  = "Sick"
	other = "Other"

	// beat is how often the kubelet, and the detector as well, repeat a status that
	// has not changed.
	beat = 5 * time.Minute
	// writers is how many requests are under way at a time where many are.
	writers = 16
)

// padded returns a node of about 15 kB, as a cloud provider's are: most of it are
// the names of its images.
func padded(name string) *corev1.Node {
	digest := strings.Repeat("0123456789abcdef", 4)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{corev1.LabelHostname: name},
		Annotations: map[string]string{"example.com/state": strings.Repeat("s", 1000)},
	}}
	for i := range 20 {
		node.Labels[fmt.Sprintf("example.com/label-%d", i)] = fmt.Sprintf("value-%d", i)
	}
	for i := range 50 { // the kubelet's limit
		repository := fmt.Sprintf("registry.example.com/team/image-%d", i)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names:     []string{repository + "@sha256:" + digest, repository + ":v1.2.3"},
			SizeBytes: 123456789,
		})
	}
	now := metav1.Now()
	add := func(conditionType, status, message string) {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(conditionType), Status: corev1.ConditionStatus(status), Reason: "As" + status,
			Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	add("Ready", "True", "kubelet is posting ready status")
	for _, pressure := range []string{"Memory", "Disk", "PID"} {
		add(pressure+"Pressure", "False", "kubelet has no "+pressure+" pressure")
	}
	for i := range 8 {
		add(fmt.Sprintf("Checked%d", i), "False", fmt.Sprintf("check %d has found nothing", i))
	}
	add(sick, "False", "all is well")
	return node
}

// grow creates nodes until there are count.
func (s *scene) grow(count int) {
	have := len(s.nodes)
	for i := have; i < count; i++ {
		s.nodes = append(s.nodes, fmt.Sprintf("node-%d", i))
	}
	s.parallel(s.nodes[have:], func(ctx context.Context, name string) error {
		node := padded(name)
		status := node.Status
		if err := s.client.Create(ctx, node); err != nil {
			return err
		}
		node.Status = status
		return s.client.Status().Update(ctx, node)
	})
}

// parallel does something for each of the names, several at a time.
func (s *scene) parallel(names []string, do func(ctx context.Context, name string) error) {
	errs := make([]error, len(names))
	workqueue.ParallelizeUntil(s.ctx, writers, len(names), func(i int) { errs[i] = do(s.ctx, names[i]) })
	if err := errors.Join(errs...); err != nil {
		s.b.Fatal(err)
	}
}

// heartbeats repeats conditions of the nodes at the rate at which their kubelets and
// detectors do, until stopped.
func (s *scene) heartbeats() (stop func()) {
	return s.spawn(func(ctx context.Context) error {
		tick := time.NewTicker(beat / time.Duration(2*len(s.nodes)))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			name := s.nodes[rand.IntN(len(s.nodes))]
			if err := s.patch(ctx, name, "Checked0", "False", time.Time{}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
}

// patch writes a condition of a node as a detector does. Without a transition it is a
// heartbeat.
func (s *scene) patch(ctx context.Context, node, conditionType, status string, transition time.Time) error {
	condition := map[string]any{"type": conditionType, "status": status, "lastHeartbeatTime": metav1.Now()}
	if !transition.IsZero() {
		condition["reason"], condition["message"] = "As"+status, "reported by a benchmark"
		condition["lastTransitionTime"] = metav1.NewTime(transition)
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return err
	}
	obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return s.client.Status().Patch(ctx, obj, client.RawPatch(types.StrategicMergePatchType, data))
}
