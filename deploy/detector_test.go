//go:build integration

package deploy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/events"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/internal/coreapi"
)

// newCondition is one that the Node does not have yet.
const newCondition = "PLEGUnhealthy"

// detect runs the detector's exporter of conditions and recorder of events, which
// report two problems, until the test ends.
func (s *scene) detect(cfg *rest.Config, node *corev1.Node) *exporter.Exporter {
	s.Helper()
	core, err := coreapi.New(cfg)
	s.must(err)
	recorder := events.NewRecorder(s.ctx, core, node.Name, "")
	conditions, err := exporter.New(core, exporter.Options{
		NodeName: node.Name, Heartbeat: time.Minute, ProblemHeartbeat: time.Second,
		Boot: time.Now().Add(-time.Hour), BootID: "test", OnChange: recorder.Changed,
		Clock: clock.RealClock{}, Rand: rand.Float64, Registerer: prometheus.NewRegistry(),
	})
	s.must(err)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- conditions.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
		recorder.Stop()
	})
	report := &checks.Report{Source: "test"}
	for _, conditionType := range []string{fault, newCondition} {
		report.Observations = append(report.Observations, checks.Observation{
			Type: conditionType, Status: checks.True, At: time.Now(), Reason: "Broken", Message: "it is broken",
		})
	}
	conditions.Take(report)
	return conditions
}

func TestADetectorSetsConditionsOfItsNodeAndWritesEvents(t *testing.T) {
	s := newScene(t)
	s.detect(s.account("detector", s.a), s.a)
	err := wait.PollUntilContextTimeout(s.ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		node, written := &corev1.Node{}, &corev1.EventList{}
		if err := s.admin.Get(ctx, key(s.a), node); err != nil {
			return false, err
		}
		err := s.admin.List(ctx, written, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": s.a.Name, "reason": "Broken"})
		return len(written.Items) == 2 && reason(node, fault) == "Broken" && reason(node, newCondition) == "Broken" && reason(node, corev1.NodeReady) == "KubeletReady", err
	})
	if err != nil {
		t.Errorf("two conditions and two events were not written: %v", err)
	}
}

func reason(node *corev1.Node, conditionType corev1.NodeConditionType) string {
	for _, c := range node.Status.Conditions {
		if c.Type == conditionType {
			return c.Reason
		}
	}
	return ""
}

func TestADetectorWritesNothingButConditionsOfItsNode(t *testing.T) {
	s := newScene(t)
	detector := s.client(s.account("detector", s.a))
	ours := "the detector of node " + s.a.Name + " may write "
	status := func(node, patch string) func() error {
		return func() error { return patchStatus(s.ctx, detector, node, patch) }
	}
	raw := func(patchType types.PatchType, patch string) func() error {
		return func() error {
			return detector.Status().Patch(s.ctx, named(s.a.Name), client.RawPatch(patchType, []byte(patch)))
		}
	}
	merge := func(node, patch string) func() error {
		return func() error { return patchNode(s.ctx, detector, node, patch) }
	}
	attempts := []attempt{
		{"condition of B", "the detector of node " + s.a.Name + " may not write the status of node " + s.b.Name, status(s.b.Name, condition(fault, "False"))},
		{"status untouched of B", "the detector of node " + s.a.Name + " may not write the status of node " + s.b.Name, status(s.b.Name, `{"status":{"phase":""}}`)},
		{"two of the kubelet's", ours + "its own conditions only, not Ready, DiskPressure", status(s.a.Name,
			`{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"DiskPressure","status":"True"},{"type":"RuntimeUnhealthy","status":"False"}]}}`)},
		{"deletion of Ready", ours + "its own conditions only, not Ready", status(s.a.Name, `{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`)},
		{"deletion of all", ours + "its own conditions only, not Ready, DiskPressure", raw(types.MergePatchType, `{"status":{"conditions":[]}}`)},
		{"a second Ready", ours + "its own conditions only, not Ready", raw(types.JSONPatchType,
			`[{"op":"add","path":"/status/conditions/-","value":{"type":"Ready","status":"False"}}]`)},
		{"the same Ready twice", ours + "its own conditions only", raw(types.JSONPatchType, `[{"op":"copy","from":"/status/conditions/0","path":"/status/conditions/-"}]`)},
		{"label", ours + "conditions only, not metadata.labels", status(s.a.Name, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)},
		{"removal of labels", ours + "conditions only, not metadata.labels", raw(types.MergePatchType, `{"metadata":{"labels":null}}`)},
		{"annotation", ours + "conditions only, not metadata.annotations", status(s.a.Name, `{"metadata":{"annotations":{"a":"b"}}}`)},
		{"finalizer", ours + "conditions only, not metadata.finalizers", status(s.a.Name, `{"metadata":{"finalizers":["example.com/stuck"]}}`)},
		{"generateName", ours + "conditions only, not metadata.generateName", status(s.a.Name, `{"metadata":{"generateName":"a-"}}`)},
		{"owner", ours + "conditions only, not metadata.ownerReferences", status(s.a.Name,
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"`+s.b.Name+`","uid":"`+string(s.b.UID)+`"}]}}`)},
		{"label with a condition", ours + "conditions only, not metadata.labels", status(s.a.Name,
			`{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"RuntimeUnhealthy","status":"False"}]}}`)},
		{"event about B", "nodemend-detector on node " + s.a.Name + " may write events about this node only, not about Node " + s.b.Name, func() error {
			return detector.Create(s.ctx, eventAbout("Node", s.b.Name))
		}},
		{"update of the status", `cannot update resource "nodes/status"`, func() error { return detector.Status().Update(s.ctx, s.a.DeepCopy()) }},
		{"claim", `cannot update resource "nodeactions/status"`, func() error { return claim(s.ctx, detector, s.actionA.DeepCopy()) }},
		{"read policies", `cannot get resource "remedypolicies"`, func() error { return detector.Get(s.ctx, key(s.policy), s.policy.DeepCopy()) }},
		{"read a secret", `cannot get resource "secrets"`, func() error { return detector.Get(s.ctx, key(secret("any")), &corev1.Secret{}) }},
		{"list secrets", `cannot list resource "secrets"`, func() error { return detector.List(s.ctx, &corev1.SecretList{}) }},
		{"list nodes", `cannot list resource "nodes"`, func() error { return detector.List(s.ctx, &corev1.NodeList{}) }},
	}
	for _, conditionType := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"} {
		attempts = append(attempts, attempt{conditionType, ours + "its own conditions only, not " + conditionType, status(s.a.Name, condition(conditionType, "Unknown"))})
	}
	for field, value := range map[string]string{
		"capacity":        `{"cpu":"1"}`,
		"allocatable":     `{"cpu":"1"}`,
		"addresses":       `[{"type":"InternalIP","address":"10.1.2.3"}]`,
		"images":          `[]`,
		"nodeInfo":        `{"kernelVersion":"1"}`,
		"daemonEndpoints": `{"kubeletEndpoint":{"Port":1}}`,
		"volumesAttached": `[{"name":"a","devicePath":"b"}]`,
		"volumesInUse":    `["a"]`,
		"phase":           `"Terminated"`,
		"features":        `{"supplementalGroupsPolicy":true}`,
	} {
		attempts = append(attempts, attempt{field, "status." + field, raw(types.MergePatchType, `{"status":{"`+field+`":`+value+`}}`)})
	}
	for _, node := range []string{s.a.Name, s.b.Name} {
		attempts = append(attempts,
			attempt{"label " + node, `cannot patch resource "nodes"`, merge(node, `{"metadata":{"labels":{"a":"b"}}}`)},
			attempt{"taint " + node, `cannot patch resource "nodes"`, merge(node, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)},
			attempt{"cordon " + node, `cannot patch resource "nodes"`, merge(node, `{"spec":{"unschedulable":true}}`)},
		)
	}
	s.refused(attempts)
}

func TestANodesSpecIsNotPartOfItsStatus(t *testing.T) {
	s := newScene(t)
	detector := s.client(s.account("detector", s.a))
	s.must(patchStatus(s.ctx, detector, s.a.Name, `{"spec":{"unschedulable":true,"taints":[{"key":"a","effect":"NoExecute"}],"providerID":"other"}}`))
	node := &corev1.Node{}
	s.must(s.admin.Get(s.ctx, key(s.a), node))
	for _, taint := range node.Spec.Taints {
		if taint.Key == "a" {
			t.Error("a taint was written with the status")
		}
	}
	if node.Spec.Unschedulable || node.Spec.ProviderID != "" {
		t.Errorf("the spec was written with the status: %+v", node.Spec)
	}
}

func TestTheTypesOfConditionCanBeNarrowed(t *testing.T) {
	s := newScene(t)
	detector := s.client(s.account("detector", s.a))
	s.must(patchStatus(s.ctx, detector, s.a.Name, condition(newCondition, "True")))

	// The policy of this test is a second one, for node A only.
	name := "narrowed-" + s.a.Name
	for _, obj := range rendered(t, "detector.conditions[0]="+fault, "detector.conditions[1]=Ready").ofKind("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if obj.GetName() != "nodemend-detector" {
			continue
		}
		obj.SetName(name)
		spec := obj.Object["spec"].(map[string]any)
		if conditions, ok := spec["matchConditions"].([]any); ok {
			spec["matchConditions"] = append(conditions, map[string]any{"name": "this-test", "expression": "request.name == '" + s.a.Name + "'"})
		} else {
			spec["policyName"] = name
		}
		s.must(s.admin.Create(s.ctx, &obj))
		s.Cleanup(func() { s.must(s.admin.Delete(context.WithoutCancel(s.ctx), &obj)) })
	}
	dryRun := client.NewDryRunClient(detector)
	s.untilRefused(name, func() error { return patchStatus(s.ctx, dryRun, s.a.Name, condition(newCondition, "False")) })
	s.must(patchStatus(s.ctx, detector, s.a.Name, condition(fault, "False")))
	s.refused([]attempt{
		{"not listed", "may write its own conditions only, not " + newCondition, func() error {
			return patchStatus(s.ctx, detector, s.a.Name, condition(newCondition, "False"))
		}},
		{"new and not listed", "may write its own conditions only, not Other", func() error {
			return patchStatus(s.ctx, detector, s.a.Name, condition("Other", "False"))
		}},
		{"listed, but the kubelet's", "may write its own conditions only, not Ready", func() error {
			return patchStatus(s.ctx, detector, s.a.Name, condition("Ready", "False"))
		}},
	})
}

func TestALargeNodeIsNoObstacle(t *testing.T) {
	s := newScene(t)
	node := &corev1.Node{}
	s.must(s.admin.Get(s.ctx, key(s.a), node))
	for i := range 1000 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/team/application-%d@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/team/application-%d:v1.2.3", i)},
		})
	}
	s.must(s.admin.Status().Update(s.ctx, node))
	detector := s.client(s.account("detector", s.a))
	s.must(patchStatus(s.ctx, detector, s.a.Name, condition(fault, "False")))
}
