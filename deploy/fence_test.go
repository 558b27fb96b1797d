//go:build integration

package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/helm"
	"github.com/nodemend/nodemend/test/redfish"
)

// Who has this token can say whether nodes can be fenced, and nothing else of them.
func TestTheRemoteRunnerWritesOneConditionOfNodes(t *testing.T) {
	s := newScene(t)
	own := s.client(s.remoteRunner())
	unbound, detector := s.client(s.bound("remote-runner", nil)), s.client(s.account("detector", s.a))
	const ours = "the remote runner may write "
	const fence = v1alpha1.NodeFenceable
	as := func(c client.Client, node, patch string) func() error {
		return func() error { return patchStatus(s.ctx, client.NewDryRunClient(c), node, patch) }
	}
	status := func(patch string) func() error { return as(own, s.a.Name, patch) }
	raw := func(patchType types.PatchType, patch string) func() error {
		return func() error {
			return client.NewDryRunClient(own).Status().Patch(s.ctx, named(s.a.Name), client.RawPatch(patchType, []byte(patch)))
		}
	}
	p := &props{scene: s}
	p.until(func() bool { // rights and policy are in force
		refused := status(condition("Ready", "False"))()
		return refused != nil && strings.Contains(refused.Error(), ours) && status(condition(fence, "True"))() == nil
	})
	for what, try := range map[string]func() error{
		"of node A": status(condition(fence, "True")),
		"of node B": as(own, s.b.Name, condition(fence, "False")),
		"watch nodes": func() error {
			watch, err := own.Watch(s.ctx, &corev1.NodeList{})
			if err == nil {
				watch.Stop()
			}
			return err
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.refused([]attempt{
		{"Ready", ours + "Fenceable only, not Ready", status(condition("Ready", "False"))},
		{"a condition of a check", ours + "Fenceable only, not " + fault, status(condition(fault, "False"))},
		{"one of two", ours + "Fenceable only, not Ready", status(`{"status":{"conditions":[{"type":"` + fence + `","status":"True"},{"type":"Ready","status":"False"}]}}`)},
		{"deletion of Ready", ours + "Fenceable only, not Ready", status(`{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`)},
		{"two of it", "one condition of each type", raw(types.JSONPatchType, `[{"op":"add","path":"/status/conditions/-","value":{"type":"`+fence+`","status":"True"}},{"op":"add","path":"/status/conditions/-","value":{"type":"`+fence+`","status":"False"}}]`)},
		{"another status", "with the status True, False or Unknown", status(condition(fence, "Maybe"))},
		{"a long message", "a message of 4096 characters at most", status(`{"status":{"conditions":[{"type":"` + fence + `","status":"True","message":"` + strings.Repeat("x", 5000) + `"}]}}`)},
		{"annotation with it", ours + "conditions only, not metadata.annotations", status(`{"metadata":{"annotations":{"a":"b"}},"status":{"conditions":[{"type":"` + fence + `","status":"False"}]}}`)},
		{"label", ours + "conditions only, not metadata.labels", status(`{"metadata":{"labels":{"a":"b"}}}`)},
		{"finalizer", ours + "conditions only, not metadata.finalizers", status(`{"metadata":{"finalizers":["example.com/stuck"]}}`)},
		{"the boot ID", ours + "conditions only, not status.nodeInfo", status(`{"status":{"nodeInfo":{"bootID":"another"}}}`)},
		{"addresses", ours + "conditions only, not status.addresses", status(`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`)},
		{"a token of no pod", "not bound to a pod", as(unbound, s.a.Name, condition(fence, "False"))},
		{"the detector of the node", fence, as(detector, s.a.Name, condition(fence, "True"))},
		{"cordon", `cannot patch resource "nodes"`, func() error {
			return own.Patch(s.ctx, named(s.a.Name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))
		}},
	})
}

// The whole of it, with its own token on a real API server and a BMC of Redfish: what people ask for is
// tried at once, what has gone bad is told, and a restart resets nothing.
func TestARemoteRunnerTellsWhetherANodeCanBeFenced(t *testing.T) {
	helm.Program(t)
	s := newScene(t)
	s.says(s.a, bootOne)
	bmc, file := bmcOf(t, &redfish.System{UUID: machineUUID, Power: "On"})
	account := s.remoteRunner()
	ask := func() {
		s.must(patchNode(s.ctx, s.admin, s.a.Name, `{"metadata":{"annotations":{"`+v1alpha1.FenceCheckAnnotation+`":"`+time.Now().UTC().Format(time.RFC3339Nano)+`"}}}`))
	}
	until := func(status corev1.ConditionStatus, reason string, after time.Time) (found corev1.NodeCondition) {
		t.Helper()
		s.eventually("Fenceable is "+reason, func(ctx context.Context) (bool, error) {
			if err := s.admin.Get(ctx, key(s.a), s.a); err != nil {
				return false, err
			}
			c := v1alpha1.FindNodeCondition(s.a, v1alpha1.NodeFenceable)
			if c != nil {
				found = *c
			}
			return c != nil && c.Status == status && c.Reason == reason && c.LastHeartbeatTime.After(after), nil
		})
		return found
	}
	end := s.remotely(account, file)
	ask()
	first := until(corev1.ConditionTrue, v1alpha1.FenceAnswers, time.Time{})
	end()

	// Another process, an hour later.
	first.LastHeartbeatTime = metav1.NewTime(first.LastHeartbeatTime.Add(-time.Hour))
	s.must(patchStatus(s.ctx, s.admin, s.a.Name, fmt.Sprintf(`{"status":{"nodeInfo":{"systemUUID":"4c4c4544-0032-3810-8052-b4c04f4a5799"},"conditions":[{"type":%q,"lastHeartbeatTime":%q}]}}`,
		v1alpha1.NodeFenceable, first.LastHeartbeatTime.UTC().Format(time.RFC3339))))
	end = s.remotely(account, file)
	ask()
	second := until(corev1.ConditionFalse, v1alpha1.FenceOtherMachine, first.LastHeartbeatTime.Time)
	if second.LastTransitionTime.Before(&first.LastTransitionTime) || !strings.Contains(second.Message, bmc.URL()) {
		t.Errorf("got %+v, before %+v", second, first)
	}
	end()
	if calls := bmc.Calls(); len(calls) > 0 {
		t.Errorf("the BMC was told %q", calls)
	}
}
