//go:build integration

package deploy_test

import (
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/metal3"
	"github.com/nodemend/nodemend/test/helm"
)

// metals are the values with a BareMetalHost of this cluster.
var metals = append([]string{
	"remoteRunner.config.switches[1].metal3.namespace=default", "remoteRunner.config.switches[1].metal3.host=bmh-7",
	"remoteRunner.config.switches[2].metal3.namespace=default", "remoteRunner.config.switches[2].metal3.host=bmh-8",
	"remoteRunner.config.switches[3].metal3.namespace=elsewhere", "remoteRunner.config.switches[3].metal3.host=bmh-9", "remoteRunner.config.switches[3].metal3.kubeconfig=/k",
}, remotely...)

// bareMetalHosts has the API server serve them, with what matters of their schema.
func (s *scene) bareMetalHosts() {
	s.Helper()
	s.must(apiextensionsv1.AddToScheme(s.scheme))
	type schema = apiextensionsv1.JSONSchemaProps
	text, yes := schema{Type: "string"}, schema{Type: "boolean"}
	object := func(of map[string]schema) schema { return schema{Type: "object", Properties: of} }
	whole := object(map[string]schema{
		"spec": object(map[string]schema{"online": yes, "image": object(map[string]schema{"url": text})}),
		"status": object(map[string]schema{
			"poweredOn": yes, "operationalStatus": text, "errorType": text, "errorMessage": text, "provisioning": object(map[string]schema{"state": text}),
		}),
	})
	s.temporary(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "baremetalhosts.metal3.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "metal3.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "BareMetalHost", ListKind: "BareMetalHostList", Plural: "baremetalhosts", Singular: "baremetalhost"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	})
}

// Who has this token can switch BareMetalHosts, and have none of them wiped.
func TestTheRemoteRunnerSwitchesABareMetalHost(t *testing.T) {
	helm.Program(t)
	s := newScene(t)
	p := &props{scene: s}
	s.bareMetalHosts()
	const uuid = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	machine, err := power.ParseUUID(uuid)
	s.must(err)
	host := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"online": true, "image": map[string]any{"url": "https://example.com/a"}}}}
	host.SetGroupVersionKind(metal3.Kind())
	host.SetNamespace("default")
	host.SetName("bmh-7")
	host.SetLabels(map[string]string{"rack": "7"})
	host.SetAnnotations(map[string]string{metal3.UUIDAnnotation: uuid})
	p.until(func() bool { return s.admin.Create(s.ctx, host) == nil }) // its kind is served
	powered := func(on bool) {
		t.Helper()
		s.must(s.admin.Get(s.ctx, client.ObjectKeyFromObject(host), host))
		host.Object["status"] = map[string]any{"poweredOn": on, "operationalStatus": "OK", "provisioning": map[string]any{"state": "provisioned"}}
		s.must(s.admin.Status().Update(s.ctx, host))
	}
	powered(true)

	own := s.client(s.remoteRunner())
	unbound := s.client(s.bound("remote-runner", nil))
	ours := rendered(t, metals...)
	applied := func(do func(obj *unstructured.Unstructured) error) (count int) {
		for _, obj := range ours {
			if obj.GetName() == "nodemend-remote-runner-metal3" {
				s.must(do(&obj))
				count++
			}
		}
		return count
	}
	t.Cleanup(func() { // other tests ask what its token may do without
		ctx := context.WithoutCancel(s.ctx)
		applied(func(obj *unstructured.Unstructured) error { return client.IgnoreNotFound(s.admin.Delete(ctx, obj)) })
	})
	if got := applied(func(obj *unstructured.Unstructured) error {
		return s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership)
	}); got != 4 { // Role and RoleBinding of one namespace, policy and binding
		t.Fatalf("%d objects for BareMetalHosts", got)
	}
	bmh := metal3.New(own, v1alpha1.BareMetalHostReference{Namespace: "default", Name: "bmh-7"})
	patch := func(c client.Client, body string) func() error {
		return func() error {
			return client.NewDryRunClient(c).Patch(s.ctx, host.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)))
		}
	}
	p.until(func() bool { // rights and policies are in force
		_, err := bmh.Read(s.ctx, machine)
		refused := patch(own, `{"spec":{"online":false}}`)()
		return err == nil && refused != nil && strings.Contains(refused.Error(), "annotation reboot.metal3.io/nodemend only")
	})

	if r, err := bmh.Read(s.ctx, machine); err != nil || r.Power != power.On {
		t.Errorf("got %+v, %v", r, err)
	}
	for range 2 {
		s.must(bmh.Off(s.ctx, machine, nil))
	}
	powered(false)
	if host.GetAnnotations()[metal3.OffAnnotation] != metal3.AtOnce {
		t.Errorf("its operator is told %v", host.GetAnnotations())
	}
	if r, err := bmh.Read(s.ctx, machine); err != nil || r.Power != power.Off {
		t.Errorf("got %+v, %v", r, err)
	}
	for range 2 {
		s.must(bmh.On(s.ctx, machine, nil))
	}
	powered(true)
	if _, off := host.GetAnnotations()[metal3.OffAnnotation]; off {
		t.Errorf("its operator is told %v", host.GetAnnotations())
	}

	const only = "annotation reboot.metal3.io/nodemend only"
	annotation := func(name, value string) string { return `{"metadata":{"annotations":{"` + name + `":` + value + `}}}` }
	s.refused([]attempt{
		{"another image", only, patch(own, `{"spec":{"image":{"url":"https://example.com/b"}}}`)},
		{"off by its spec", only, patch(own, `{"spec":{"online":false}}`)},
		{"another machine", only, patch(own, annotation(metal3.UUIDAnnotation, `"4c4c4544-0032-3810-8052-b4c04f4a5732"`))},
		{"another's annotation", only, patch(own, annotation("reboot.metal3.io/other", `"{}"`))},
		{"annotation taken away", only, patch(own, annotation(metal3.UUIDAnnotation, "null"))},
		{"another mode", only, patch(own, annotation(metal3.OffAnnotation, `"{\"mode\":\"soft\"}"`))},
		{"pause", only, patch(own, annotation("baremetalhost.metal3.io/paused", `""`))},
		{"label", only, patch(own, `{"metadata":{"labels":{"rack":"8"}}}`)},
		{"finalizer", only, patch(own, `{"metadata":{"finalizers":["example.com/a"]}}`)},
		{"owner", only, patch(own, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"a","uid":"u"}]}}`)},
		{"a token without a pod", "not bound to a pod", patch(unbound, annotation(metal3.OffAnnotation, `"{\"mode\":\"hard\"}"`))},
		{"its status", `cannot patch resource "baremetalhosts/status"`, func() error {
			return own.Status().Patch(s.ctx, host.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"poweredOn":false}}`)))
		}},
		{"delete", `cannot delete resource "baremetalhosts"`, func() error { return own.Delete(s.ctx, host.DeepCopy()) }},
		{"list", `cannot list resource "baremetalhosts"`, func() error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(metal3.Kind())
			return own.List(s.ctx, list)
		}},
	})
}
