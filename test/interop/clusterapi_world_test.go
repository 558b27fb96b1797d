//go:build integration

package interop

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/loopback"
)

const (
	machineAPI = "cluster.x-k8s.io/v1beta2"
	infraAPI   = "infrastructure.cluster.x-k8s.io/v1alpha1"
)

// clusterAPI is a world in which the controllers of Cluster API run, with their rights and Nodemend's for drivers.
// It manages itself: its one cluster, c1, is that in which it is.
type clusterAPI struct{ *world }

func newClusterAPI(t *testing.T) *clusterAPI {
	t.Helper()
	w := startClusterAPI(t)
	w.createCluster()
	w.replacesMachines()
	return w
}

// startClusterAPI starts it, without any cluster.
func startClusterAPI(t *testing.T) *clusterAPI {
	t.Helper()
	program := built(t, "capi")
	w := &clusterAPI{newWorld(t, cluster.Options{}, "controller.drivenBy={MachineHealthCheck}",
		"remoteRunner.enabled=true", "remoteRunner.config.replace.clusterAPI.namespace=default", "remoteRunner.config.replace.clusterAPI.cluster=c1")}
	w.kubectl("apply", "--server-side", "-f", program.files(), "-f", "testdata/capi.yaml")
	w.kubectl("label", "clusterrole", "manager-role", "cluster.x-k8s.io/aggregate-to-manager=true")
	w.kubectl("wait", "--for=condition=Established", "--timeout=10m", "crd", "--all")
	w.spawn("provider", w.provide)
	w.start(program, []string{"KUBECONFIG=" + w.manager()}, append(w.flags(), "--feature-gates=MachinePool=false,ClusterTopology=false,RuntimeSDK=false")...)
	return w
}

// replacesMachines starts the remote runner, which may do so with those of c1.
func (w *clusterAPI) replacesMachines() {
	w.t.Helper()
	w.remoteRunner(remote.Replace{ClusterAPI: &remote.ClusterAPI{Namespace: "default", Cluster: "c1"}})
}

func (w *clusterAPI) of(t *testing.T) *clusterAPI { return &clusterAPI{w.world.of(t)} }

func (w *world) kubectl(args ...string) {
	w.t.Helper()
	_, err := w.cluster.Kubectl(w.ctx, args...)
	w.Expect(err).NotTo(HaveOccurred())
}

// manager is a kubeconfig with the rights of Cluster API's manager.
func (w *clusterAPI) manager() string {
	w.t.Helper()
	path := filepath.Join(w.dir, "capi.kubeconfig")
	cfg := w.cluster.UserConfig("system:serviceaccount:capi-system:capi-manager", "system:serviceaccounts", "system:serviceaccounts:capi-system")
	w.Expect(cluster.WriteKubeconfig(path, cfg)).To(Succeed())
	return path
}

// flags are for a manager whose webhooks nobody calls.
func (w *clusterAPI) flags() []string {
	w.t.Helper()
	crt, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	w.Expect(err).NotTo(HaveOccurred())
	certs := w.t.TempDir()
	w.Expect(os.WriteFile(filepath.Join(certs, "tls.crt"), crt, 0o600)).To(Succeed())
	w.Expect(os.WriteFile(filepath.Join(certs, "tls.key"), key, 0o600)).To(Succeed())
	return []string{
		"--webhook-cert-dir=" + certs, fmt.Sprintf("--webhook-port=%d", loopback.Port(w.t)),
		"--health-addr=" + loopback.Address(w.t), "--diagnostics-address=" + loopback.Address(w.t), "--insecure-diagnostics=true",
		"--leader-elect=false", "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
	}
}

// createC1 creates c1. more is YAML of its spec. No control plane takes over its kubeconfig, which is of another
// type than theirs.
func (w *clusterAPI) createC1(more string) {
	w.t.Helper()
	kubeconfig, err := os.ReadFile(w.cluster.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	host, port, _ := strings.Cut(strings.TrimPrefix(w.cluster.Config.Host, "https://"), ":")
	_, err = strconv.Atoi(port)
	w.Expect(err).NotTo(HaveOccurred())
	w.create(`
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: c1-kubeconfig, labels: {cluster.x-k8s.io/cluster-name: c1}}
type: Opaque
data: {value: %[1]s}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: DummyCluster
metadata: {namespace: default, name: c1}
spec:
  controlPlaneEndpoint: {host: %[2]s, port: %[3]s}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {namespace: default, name: c1}
spec:
  controlPlaneEndpoint: {host: %[2]s, port: %[3]s}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DummyCluster, name: c1}
  %[4]s
`, base64.StdEncoding.EncodeToString(kubeconfig), host, port, more)
}

// isInitialized waits until Cluster API takes c1 for running.
func (w *clusterAPI) isInitialized() {
	w.t.Helper()
	w.Eventually(func() string {
		return condition(w.get(machineAPI, "Cluster", "default", "c1"), "ControlPlaneInitialized")
	}).Should(HavePrefix("True/"))
}

// createCluster creates c1, with a Machine of its control plane: without one no other is looked at.
func (w *clusterAPI) createCluster() {
	w.t.Helper()
	w.createC1("")
	w.create(`
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: DummyMachine
metadata: {namespace: default, name: c1-control-plane, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec: {}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: DummyMachineTemplate
metadata: {namespace: default, name: worker}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  namespace: default
  name: c1-control-plane
  labels: {cluster.x-k8s.io/cluster-name: c1, cluster.x-k8s.io/control-plane: ""}
spec:
  clusterName: c1
  bootstrap: {dataSecretName: none}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DummyMachine, name: c1-control-plane}
`)
	w.isInitialized()
}

// capiMachine is a Machine, with the name of its node.
type capiMachine struct {
	name, node string
	uid        types.UID
}

// drivenSet is a [clusterAPI.machineSet] with a MachineHealthCheck that has its Machines remediated by Nodemend,
// and a policy with these steps for that.
func (w *clusterAPI) drivenSet(name string, replicas int, steps ...v1alpha1.Step) []capiMachine {
	w.t.Helper()
	w.policy(name, name, "", steps...)
	w.create(`
apiVersion: nodemend.dev/v1alpha1
kind: NodemendRemediationTemplate
metadata: {namespace: default, name: %[1]s}
spec: {template: {spec: {policy: %[1]s}}}
`, name)
	w.healthCheck(name, broken, fmt.Sprintf("templateRef: {apiVersion: nodemend.dev/v1alpha1, kind: NodemendRemediationTemplate, name: %s}", name))
	return w.machineSet(name, replicas)
}

// healthCheck creates a MachineHealthCheck of this name for the Machines of the MachineSet, which acts on a
// condition. more is YAML of its remediation.
func (w *clusterAPI) healthCheck(name, condition, more string) {
	w.t.Helper()
	w.create(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {namespace: default, name: %[1]s}
spec:
  clusterName: c1
  selector: {matchLabels: {scene: %[1]s}}
  checks:
    nodeStartupTimeoutSeconds: 600
    unhealthyNodeConditions:
    - {type: %[2]s, status: "True", timeoutSeconds: 3}
  remediation:
    triggerIf: {unhealthyLessThanOrEqualTo: "100%%"}
    %[3]s
`, name, condition, more)
}

// machineSet creates one of this name with so many Machines, and a budget for their nodes. All are there, and
// well.
func (w *clusterAPI) machineSet(name string, replicas int) []capiMachine {
	w.t.Helper()
	w.mayActOn(name)
	w.create(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {namespace: default, name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec:
  clusterName: c1
  replicas: %[2]d
  selector: {matchLabels: {scene: %[1]s}}
  template:
    metadata: {labels: {cluster.x-k8s.io/cluster-name: c1, scene: %[1]s}}
    spec:
      clusterName: c1
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DummyMachineTemplate, name: worker}
`, name, replicas)
	w.Eventually(w.machines).WithArguments(name).Should(HaveLen(replicas))
	return w.machines(name)
}

// machineDeployment creates one of this name, as machineSet does. What its webhook would have filled in is there.
func (w *clusterAPI) machineDeployment(name string, replicas int) []capiMachine {
	w.t.Helper()
	w.mayActOn(name)
	w.create(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {namespace: default, name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec:
  clusterName: c1
  replicas: %[2]d
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: c1, cluster.x-k8s.io/deployment-name: %[1]s}}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
  template:
    metadata: {labels: {cluster.x-k8s.io/cluster-name: c1, cluster.x-k8s.io/deployment-name: %[1]s, scene: %[1]s}}
    spec:
      clusterName: c1
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DummyMachineTemplate, name: worker}
`, name, replicas)
	w.Eventually(w.machines).WithArguments(name).Should(HaveLen(replicas))
	return w.machines(name)
}

// machines are those of a MachineSet that have a node which is Ready, and known to Cluster API as such.
func (w *clusterAPI) machines(set string) (all []capiMachine) {
	w.t.Helper()
	for _, obj := range w.list(machineAPI, "Machine", sceneLabel, set) {
		node, _, _ := unstructured.NestedString(obj.Object, "status", "nodeRef", "name")
		// Cluster API writes conditions by a request of their own.
		if node != "" && strings.HasPrefix(condition(&obj, "NodeReady"), "True/") {
			all = append(all, capiMachine{obj.GetName(), node, obj.GetUID()})
		}
	}
	slices.SortFunc(all, func(a, b capiMachine) int { return strings.Compare(a.name, b.name) })
	return all
}

// provide plays the infrastructure provider: a cluster is as it should be, a machine is a node that kwok plays.
// Its name is not that of the Machine.
func (w *clusterAPI) provide(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		for _, kind := range []string{"DummyCluster", "DummyMachine"} {
			all := &unstructured.UnstructuredList{}
			all.SetAPIVersion(infraAPI)
			all.SetKind(kind + "List")
			if err := w.client.List(ctx, all); err != nil && ctx.Err() == nil {
				return err
			}
			for i := range all.Items {
				err := w.provideOne(ctx, &all.Items[i])
				if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *clusterAPI) provideOne(ctx context.Context, obj *unstructured.Unstructured) error {
	provisioned, _, _ := unstructured.NestedBool(obj.Object, "status", "initialization", "provisioned")
	if provisioned || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	status := map[string]any{"initialization": map[string]any{"provisioned": true}}
	if obj.GetKind() == "DummyMachine" {
		id := "dummy://" + obj.GetName()
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "node-" + obj.GetName(),
				Labels:      map[string]string{corev1.LabelHostname: "node-" + obj.GetName(), sceneLabel: obj.GetLabels()[sceneLabel]},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Spec: corev1.NodeSpec{ProviderID: id},
		}
		_, ofPlane := obj.GetLabels()["cluster.x-k8s.io/control-plane"]
		if ofPlane {
			node.Labels["node-role.kubernetes.io/control-plane"] = ""
		}
		if err := client.IgnoreAlreadyExists(w.client.Create(ctx, node)); err != nil {
			return err
		}
		if ofPlane {
			if err := w.runControlPlane(ctx, node.Name); err != nil {
				return err
			}
		}
		if err := unstructured.SetNestedField(obj.Object, id, "spec", "providerID"); err != nil {
			return err
		}
		if err := w.client.Update(ctx, obj); err != nil {
			return err
		}
		status["addresses"] = []any{map[string]any{"type": "InternalIP", "address": "127.0.0.1"}}
	}
	obj.Object["status"] = status
	return w.client.Status().Update(ctx, obj)
}
