//go:build integration && !agent

package main

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// runAll runs all tests, with the cluster that those of the api tier need.
func runAll(m *testing.M) int { return clustertest.Run(m, clustertest.Together()) }

// What is wrong in the cluster alone is found by asking it, and nothing is left there.
func TestPolicyCheckAsksTheCluster(t *testing.T) {
	cluster := clustertest.Shared(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: cluster.Config.Host, CertificateAuthorityData: cluster.Config.CAData, CertificateAuthority: cluster.Config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			Token: cluster.Config.BearerToken, ClientCertificateData: cluster.Config.CertData, ClientKeyData: cluster.Config.KeyData,
			ClientCertificate: cluster.Config.CertFile, ClientKey: cluster.Config.KeyFile,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	nodes := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "policy-check", Labels: map[string]string{"for": "policy-check"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: "FanSlow", Status: "False"}}
	if _, err := nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	// Another node is not accepted, which only who has the object can tell.
	const maintenance = "apiVersion: nodemend.dev/v1alpha1\nkind: NodeMaintenance\nmetadata: {name: policy-check}\nspec: {nodeName: policy-check-2, reason: test}\n"
	api, err := client.New(cluster.Config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-check"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "policy-check", Reason: "test"},
	}); err != nil {
		t.Fatal(err)
	}

	const text = "apiVersion: nodemend.dev/v1alpha1\nkind: RemedyPolicy\nmetadata: {name: policy-check}\n" +
		"spec: {nodeSelector: {matchLabels: {for: SELECTED}}, match: [{type: FanSlow, status: \"True\"}], steps: [{command: {argv: [/bin/true]}}]}\n"
	const budget = "---\napiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: policy-check}\nspec: {nodeSelector: {matchLabels: {for: policy-check}}}\n"
	here := strings.ReplaceAll(text, "SELECTED", "policy-check")
	for name, test := range map[string]struct{ text, want string }{
		"all is there":       {here + budget, "2 objects in 1 file are valid\n"},
		"without a budget":   {here, "no RemediationBudget selects any of 1 selected node"},
		"no node":            {strings.ReplaceAll(text, "SELECTED", "nobody") + budget, "spec.nodeSelector selects none of "},
		"nobody reports it":  {strings.ReplaceAll(here, "FanSlow", "PLEGUnhealthy") + budget, "none of 1 selected node reports PLEGUnhealthy"},
		"the server refuses": {maintenance, "stdin:3:18: NodeMaintenance/policy-check: the cluster refuses it: "},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := runPolicy(t, test.text, "check", "--server", "--kubeconfig", kubeconfig, "-")
			if !strings.Contains(output, test.want) {
				t.Errorf("%v: printed\n%swant %q", err, output, test.want)
			}
			if strings.HasPrefix(test.want, "2 objects") && output != test.want {
				t.Errorf("printed\n%s", output)
			}
		})
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}
