//go:build integration

package interop

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/loopback"
	"github.com/nodemend/nodemend/test/process"
)

const karpenterAPI = "karpenter.sh/v1"

// The two that are run. The older one is the last without the annotation by which it is told to repair no node.
const (
	newestKarpenter = "karpenter"
	olderKarpenter  = "karpenter-1.14"
)

// karpenter is a world in which Karpenter runs, with its NodeRepair.
type karpenter struct {
	*world
	program *process.Process
	// mu is held by who has it stand still.
	mu *sync.Mutex
}

func newKarpenter(t *testing.T, name string) *karpenter {
	t.Helper()
	program := built(t, name)
	w := &karpenter{world: newWorld(t, cluster.Options{Scheduler: true}, "remoteRunner.enabled=true", "remoteRunner.config.replace.karpenter=true"), mu: &sync.Mutex{}}
	w.kubectl("apply", "--server-side", "-f", program.files())
	w.kubectl("wait", "--for=condition=Established", "--timeout=10m", "crd", "--all")
	w.create(`
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
`)
	w.program = w.start(program, []string{
		"KUBECONFIG=" + w.cluster.Kubeconfig, "DISABLE_LEADER_ELECTION=true", "SYSTEM_NAMESPACE=kube-system", "FEATURE_GATES=NodeRepair=true",
		fmt.Sprintf("METRICS_PORT=%d", loopback.Port(t)), fmt.Sprintf("HEALTH_PROBE_PORT=%d", loopback.Port(t)),
	})
	w.remoteRunner(remote.Replace{Karpenter: true})
	return w
}

func (w *karpenter) of(t *testing.T) *karpenter { return &karpenter{w.world.of(t), w.program, w.mu} }

// whileItStandsStill stops Karpenter in whatever it is about.
func (w *karpenter) whileItStandsStill(do func()) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Expect(w.program.Signal(syscall.SIGSTOP)).To(Succeed())
	defer func() { w.Expect(w.program.Signal(syscall.SIGCONT)).To(Succeed()) }()
	do()
}

// claimed is a NodeClaim, with its node.
type claimed struct {
	claim, node string
	uid         types.UID
}

// protected is a PodDisruptionBudget that lets no pod of a NodePool go: as long as a drain has time, it lasts.
const protected = `
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: default, name: %[1]s}
spec:
  maxUnavailable: 0
  selector: {matchLabels: {scene: %[1]s}}
`

// unprotect takes it away from that of this name.
func (w *karpenter) unprotect(pool string) {
	w.t.Helper()
	w.Expect(w.client.Delete(w.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pool}})).To(Succeed())
}

// nodePool creates one of this name, with annotations for its nodes, a pod for which Karpenter makes one node, and
// a budget for that. more is YAML besides, for the same name.
func (w *karpenter) nodePool(name, more, annotations string) claimed {
	w.t.Helper()
	w.mayActOn(name)
	w.create(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
  template:
    metadata:
      labels: {scene: %[1]s}
      annotations: {%[2]s}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: default, name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {scene: %[1]s}}
  template:
    metadata: {labels: {scene: %[1]s}}
    spec:
      nodeSelector: {karpenter.sh/nodepool: %[1]s}
      containers:
      - {name: sleeps, image: sleeps, resources: {requests: {cpu: "1"}}}
`+more, name, annotations)
	w.Eventually(w.nodesOf).WithArguments(name).Should(HaveLen(1))
	return w.nodesOf(name)[0]
}

// nodesOf are those of a NodePool that Karpenter takes for ready and that have a pod which runs.
func (w *karpenter) nodesOf(pool string) (all []claimed) {
	w.t.Helper()
	var pods corev1.PodList
	w.Expect(w.client.List(w.ctx, &pods, client.MatchingLabels{sceneLabel: pool})).To(Succeed())
	runs := map[string]bool{}
	for i := range pods.Items {
		runs[pods.Items[i].Spec.NodeName] = runs[pods.Items[i].Spec.NodeName] || pods.Items[i].Status.Phase == corev1.PodRunning
	}
	for _, obj := range w.list(karpenterAPI, "NodeClaim", "karpenter.sh/nodepool", pool) {
		node, _, _ := unstructured.NestedString(obj.Object, "status", "nodeName")
		if runs[node] && strings.HasPrefix(condition(&obj, "Initialized"), "True/") && obj.GetDeletionTimestamp() == nil {
			all = append(all, claimed{obj.GetName(), node, obj.GetUID()})
		}
	}
	return all
}

// claim is the NodeClaim of this name; nil: there is none.
func (w *karpenter) claim(name string) *unstructured.Unstructured {
	w.t.Helper()
	return w.get(karpenterAPI, "NodeClaim", "", name)
}
