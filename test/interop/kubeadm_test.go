//go:build integration

package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The etcd of this KubeadmControlPlane is an external one, which nobody asks: it would ask its own through kubelets,
// and nobody plays one that forwards ports.
func TestKubeadmControlPlane(t *testing.T) {
	t.Parallel()
	w := newKubeadm(t)
	t.Run("a Machine that the step replace deletes is replaced by it", func(t *testing.T) { w.of(t).planeReplaces() })
	t.Run("one that is marked it refuses to replace, and the mark is taken back", func(t *testing.T) { w.of(t).planeRefuses() })
}

// newKubeadm is a world whose c1 has a KubeadmControlPlane, with three machines.
func newKubeadm(t *testing.T) *clusterAPI {
	t.Helper()
	program := built(t, "kcp")
	w := startClusterAPI(t)
	w.kubectl("apply", "--server-side", "-f", program.files())
	w.kubectl("label", "crd", "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "kubeadmconfigs.bootstrap.cluster.x-k8s.io", "cluster.x-k8s.io/v1beta2=v1beta2")
	w.kubectl("wait", "--for=condition=Established", "--timeout=10m", "crd", "--all")
	w.spawn("bootstrap provider", w.bootstrap)
	w.start(program, []string{"KUBECONFIG=" + w.cluster.Kubeconfig}, w.flags()...)
	w.mayActOn("plane")
	crt, key, err := cert.GenerateSelfSignedCertKey("etcd", nil, nil)
	w.Expect(err).NotTo(HaveOccurred())
	w.create(`
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-system, name: kubeadm-config}
data: {ClusterConfiguration: ""}
---
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: c1-etcd, labels: {cluster.x-k8s.io/cluster-name: c1}}
type: cluster.x-k8s.io/secret
data: {tls.crt: %[1]s, tls.key: %[2]s}
---
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: c1-apiserver-etcd-client, labels: {cluster.x-k8s.io/cluster-name: c1}}
type: cluster.x-k8s.io/secret
data: {tls.crt: %[1]s, tls.key: %[2]s}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: DummyMachineTemplate
metadata: {namespace: default, name: plane}
spec: {template: {spec: {}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {namespace: default, name: plane, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec:
  replicas: 3
  version: v1.37.1
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}
  machineTemplate:
    metadata: {labels: {scene: plane}}
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DummyMachineTemplate, name: plane}
  kubeadmConfigSpec:
    clusterConfiguration:
      etcd: {external: {endpoints: ["https://127.0.0.1:2379"], caFile: /ca.crt, certFile: /client.crt, keyFile: /client.key}}
`, base64.StdEncoding.EncodeToString(crt), base64.StdEncoding.EncodeToString(key))
	w.createC1("controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: plane}")
	w.isInitialized()
	w.Eventually(w.machines).WithArguments("plane").Should(HaveLen(3))
	w.replacesMachines()
	return w
}

func (w *clusterAPI) planeReplaces() {
	machines := w.machines("plane")
	w.policy("replaced", "plane", "Sick", gentle(), replace())
	sick, well := machines[0], machines[1]
	m := w.machine(sick.node)
	m.start()

	m.set("Sick", true)
	w.Eventually(w.replaced).WithArguments("replaced", sick.node).ShouldNot(BeNil())
	is := w.replaced("replaced", sick.node)
	w.Expect(is.Owner.Kind + " " + is.Owner.Name).To(Equal("KubeadmControlPlane plane"))
	w.Expect(is.Method).To(Equal(v1alpha1.ReplaceDelete))
	w.Expect(is.Wanted).To(BeEquivalentTo(3))
	w.Eventually(w.read).WithArguments(sick.name).Should(BeNil())
	w.Eventually(w.state).WithArguments("replaced", sick.node).Should(Equal(v1alpha1.ReasonReplaced))
	w.Eventually(w.machines).WithArguments("plane").Should(HaveLen(3))
	w.Expect(w.read(well.name).GetUID()).To(Equal(well.uid))
	w.isGivenBack("plane")
}

// It replaces none of which it does not see, in etcd, that the others are enough, of an external etcd neither.
func (w *clusterAPI) planeRefuses() {
	machines := w.machines("plane")
	// For what makes it act by itself nobody waits here.
	w.healthCheck("plane", "NeverSeen", "")
	w.policy("refused", "plane", "Sicker", replace())
	sick := machines[0]
	m := w.machine(sick.node)
	m.start()

	m.set("Sicker", true)
	w.Eventually(func() string { return condition(w.read(sick.name), "OwnerRemediated") }).Should(Equal("False/RemediationDeferred"))
	w.Eventually(func() string {
		if is := w.replaced("refused", sick.node); is != nil {
			return is.Said
		}
		return ""
	}).Should(ContainSubstring("Failed to check etcd cluster health before remediation"))
	w.Expect(w.replaced("refused", sick.node).Method).To(Equal(v1alpha1.ReplaceRemediate))

	// What it has refused it does not do later, when the node is well.
	m.set("Sicker", false)
	w.Eventually(w.state).WithArguments("refused", sick.node).Should(Equal(v1alpha1.ReasonRecoveredByItself))
	w.Eventually(func() string { return condition(w.read(sick.name), "OwnerRemediated") }).Should(BeEmpty())
	w.Expect(w.read(sick.name).GetUID()).To(Equal(sick.uid))
	w.Expect(w.read(sick.name).GetDeletionTimestamp()).To(BeNil())
	w.Expect(w.read(sick.name).GetAnnotations()).NotTo(HaveKey("cluster.x-k8s.io/remediate-machine"))
	w.isGivenBack("plane")
}

// bootstrap plays the bootstrap provider, which has nothing to make here.
func (w *clusterAPI) bootstrap(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"dataSecretName": "none", "initialization": map[string]any{"dataSecretCreated": true},
	}})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("bootstrap.cluster.x-k8s.io/v1beta2")
		all.SetKind("KubeadmConfigList")
		if err := w.client.List(ctx, all); err != nil && ctx.Err() == nil {
			return err
		}
		for i := range all.Items {
			created, _, _ := unstructured.NestedBool(all.Items[i].Object, "status", "initialization", "dataSecretCreated")
			if created {
				continue
			}
			err := w.client.Status().Patch(ctx, &all.Items[i], client.RawPatch(types.MergePatchType, status))
			if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// runControlPlane has a node run the pods of a control plane, as a kubelet does by its manifests.
func (w *world) runControlPlane(ctx context.Context, node string) error {
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: component + "-" + node, Labels: map[string]string{"tier": "control-plane", "component": component},
			},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: component, Image: component}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}
		if err := client.IgnoreAlreadyExists(w.client.Create(ctx, pod)); err != nil {
			return err
		}
	}
	return nil
}
