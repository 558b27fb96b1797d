//go:build e2e

package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// guarded is an application that prefers the node with the fault, with a disruption budget
// that lets nothing go.
const guarded = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: guarded, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: guarded}}
  template:
    metadata: {labels: {app: guarded}}
    spec:
      nodeSelector: {kubernetes.io/os: linux}
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - {weight: 100, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}}
      terminationGracePeriodSeconds: 1
      containers:
      - name: server
        image: ` + node.BusyboxImage + `
        command: [sh, -c, "echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
        readinessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guarded, namespace: default}
spec: {minAvailable: 2, selector: {matchLabels: {app: guarded}}}
`

func TestANodeIsDrainedAsItsDisruptionBudgetsAllowAndGivenBackOnceItHasRecovered(t *testing.T) {
	s := begin(t)
	file := s.file("guarded.yaml", fmt.Sprintf(guarded, s.node.Name))
	t.Cleanup(func() { s.kubectlMust("delete", "-f", file, "--timeout=300s") })
	s.kubectlMust("apply", "-f", file)
	s.kubectlMust("rollout", "status", "deployment/guarded", "--timeout=300s")
	if on := s.guardedPods(); on != 2 {
		t.Fatalf("%d of its pods are on node %s, want 2", on, s.node.Name)
	}
	s.onFault("out-of-service", v1alpha1.Step{
		Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a test", Drain: &v1alpha1.Drain{Timeout: *story.Duration(time.Hour)}},
	})

	s.run("touch " + faultFile)
	s.Until(round, "the drain waits for the disruption budget, and says so", func() (bool, string) {
		drain := s.drain()
		return drain != nil && slices.ContainsFunc(drain.Pods, func(p v1alpha1.RemainingPod) bool { return p.Reason == v1alpha1.PodDisruptionBudget }), fmt.Sprintf("%+v", drain)
	})
	if on := s.guardedPods(); on != 2 {
		t.Fatalf("%d pods are left although their budget lets none go", on)
	}
	out, err := s.kubectlNodemend(s.Ctx, "maintenance", "status", s.node.Name)
	s.Must(err)
	if !strings.Contains(out, "guarded") {
		t.Errorf("kubectl nodemend maintenance status does not say which pods are left:\n%s", out)
	}
	s.Proved("both pods stay while their PodDisruptionBudget wants 2, and it is said which and why")

	s.kubectlMust("patch", "poddisruptionbudget", "guarded", "--type=merge", `--patch={"spec":{"minAvailable":1}}`)
	least := int32(2)
	s.Until(round, "the node is in maintenance", func() (bool, string) {
		least = min(least, s.available("guarded"))
		return s.Reaches(v1alpha1.ReasonInMaintenance)()
	})
	if on := s.guardedPods(); on != 0 || least < 1 {
		t.Fatalf("%d pods are left, %d were available meanwhile", on, least)
	}
	for _, pod := range s.pods(s.node.Name) {
		if len(pod.OwnerReferences) == 0 || pod.OwnerReferences[0].Kind != "DaemonSet" {
			t.Errorf("pod %s is still there", pod.Name)
		}
	}
	s.Proved("all but the pods of DaemonSets moved to the other node, the controller too; %d of 2 were available throughout", least)

	s.run("rm " + faultFile)
	s.recovered("maintenance Succeeded")
	s.Proved("the node was given back once it had recovered")
	s.Must(s.rolledOut(s.Ctx))
}

// guardedPods returns how many of the application's pods the node has.
func (s *scenario) guardedPods() (count int) {
	s.Helper()
	for _, pod := range s.pods(s.node.Name) {
		if pod.Labels["app"] == "guarded" {
			count++
		}
	}
	return count
}

func (s *scenario) available(deployment string) int32 {
	s.Helper()
	d := &appsv1.Deployment{}
	s.Must(s.Get(s.Ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: deployment}, d))
	return d.Status.AvailableReplicas
}

// drain returns how far that of the only maintenance is; nil if there is none.
func (s *scenario) drain() *v1alpha1.DrainStatus {
	s.Helper()
	var list v1alpha1.NodeMaintenanceList
	s.Must(s.List(s.Ctx, &list))
	if len(list.Items) != 1 {
		return nil
	}
	return list.Items[0].Status.Drain
}
