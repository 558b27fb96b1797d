//go:build integration

package others

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.RunTogether(m))
}

// patience is for hangs.
const patience = 5 * time.Minute

// A client finds out by itself which kinds there are, also of those that come while it runs.
func TestAKindOfAnotherProgramMayCome(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	scheme := runtime.NewScheme()
	g.Expect(errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))).To(Succeed())
	c, err := client.New(clustertest.Shared(t).Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	create := func(obj client.Object) {
		g.Expect(c.Create(ctx, obj)).To(Succeed())
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(ctx), obj) })
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "others-1",
		Annotations: map[string]string{
			"cluster.x-k8s.io/machine": "others-m1", "cluster.x-k8s.io/cluster-namespace": "default",
			"machineconfiguration.openshift.io/currentConfig": "a", "machineconfiguration.openshift.io/desiredConfig": "a",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "others-c1", UID: "x"}},
	}}
	create(node)
	says := func() string {
		hold, err := Ask(ctx, c, node.Name, node.UID, Step{})
		if err != nil {
			return err.Error()
		}
		return hold.Why
	}
	g.Expect(says()).To(BeEmpty(), "without any kind of them")
	g.Expect(says()).To(BeEmpty(), "nor when it is known that there is none")

	for _, other := range []struct {
		group, version, kind, plural string
		obj                          client.Object
		why                          string
	}{
		{"config.openshift.io", "v1", "ClusterVersion", "clusterversions",
			object("config.openshift.io/v1", "ClusterVersion", "", "version", map[string]any{"status": map[string]any{"conditions": []any{condition("Progressing", "True")}}}), "OpenShift is being upgraded"},
		{"karpenter.sh", "v1", "NodeClaim", "nodeclaims",
			object("karpenter.sh/v1", "NodeClaim", "", "others-c1", map[string]any{"status": map[string]any{"conditions": []any{condition("Rebooting", "True")}}}), "Karpenter is rebooting node others-1"},
		{"cluster.x-k8s.io", "v1beta1", "Machine", "machines",
			object("cluster.x-k8s.io/v1beta1", "Machine", "default", "others-m1", map[string]any{"status": map[string]any{"conditions": []any{condition("OwnerRemediated", "False")}}}), "Machine default/others-m1 of node others-1"},
	} {
		scope := apiextensionsv1.ClusterScoped
		if other.obj.GetNamespace() != "" {
			scope = apiextensionsv1.NamespaceScoped
		}
		create(&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{
				Name:        other.plural + "." + other.group,
				Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a test"},
			},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: other.group, Scope: scope,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: other.kind, ListKind: other.kind + "List", Plural: other.plural, Singular: strings.ToLower(other.kind)},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: other.version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
				}},
			},
		})
		g.Eventually(func() error { return c.Create(ctx, other.obj) }).WithTimeout(patience).Should(Succeed())
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(ctx), other.obj) })
		g.Expect(says()).To(ContainSubstring(other.why))
	}
}
