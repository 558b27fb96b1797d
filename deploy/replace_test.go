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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/helm"
)

// replaces are the values with machines that may be replaced.
var replaces = append([]string{
	"remoteRunner.config.replace.karpenter=true", "remoteRunner.config.replace.clusterAPI.namespace=default", "remoteRunner.config.replace.clusterAPI.cluster=prod",
}, remotely...)

// foreign has the API server serve a kind of another program, until the test ends.
func (s *scene) foreign(group, version, kind string, scope apiextensionsv1.ResourceScope) {
	s.Helper()
	s.must(apiextensionsv1.AddToScheme(s.scheme))
	plural := strings.ToLower(kind) + "s"
	s.temporary(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
			}},
		},
	})
}

// Who has this token deletes no machine that nobody makes anew, that people have paused, or that is of
// another Cluster.
func TestTheRemoteRunnerDeletesWhatIsMadeAnewAlone(t *testing.T) {
	helm.Program(t)
	s := newScene(t)
	p := &props{scene: s}
	s.foreign("cluster.x-k8s.io", "v1beta2", "Machine", apiextensionsv1.NamespaceScoped)
	s.foreign("karpenter.sh", "v1", "NodeClaim", apiextensionsv1.ClusterScoped)
	own := s.client(s.remoteRunner())
	unbound := s.client(s.bound("remote-runner", nil))
	ours := rendered(t, replaces...)
	applied := func(do func(obj *unstructured.Unstructured) error) {
		for _, obj := range ours {
			if strings.HasPrefix(obj.GetName(), "nodemend-remote-runner-machines") || strings.HasPrefix(obj.GetName(), "nodemend-remote-runner-nodeclaims") {
				s.must(do(&obj))
			}
		}
	}
	applied(func(obj *unstructured.Unstructured) error {
		return s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership)
	})
	t.Cleanup(func() { // other tests ask what its token may do without
		ctx := context.WithoutCancel(s.ctx)
		applied(func(obj *unstructured.Unstructured) error { return client.IgnoreNotFound(s.admin.Delete(ctx, obj)) })
	})

	object := func(apiVersion, kind, name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "prod", "providerID": "x"}}}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		o.SetName(name)
		owner := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "workers", UID: "u", Controller: ptr.To(true)}
		if kind == "Machine" {
			o.SetNamespace("default")
		} else {
			owner = metav1.OwnerReference{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "spot", UID: "u"}
		}
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		if change != nil {
			change(o)
		}
		p.until(func() bool { return s.admin.Create(s.ctx, o.DeepCopy()) == nil }) // its kind is served
		t.Cleanup(func() { _ = s.admin.Delete(context.WithoutCancel(s.ctx), o) })
		return o
	}
	machine := func(name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return object("cluster.x-k8s.io/v1beta2", "Machine", name, change)
	}
	alone := func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }
	annotated := func(annotation string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{annotation: ""}) }
	}
	good, nodeClaim := machine("good", annotated("a")), object("karpenter.sh/v1", "NodeClaim", "good", nil)
	plane := machine("plane", func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "p", UID: "u", Controller: ptr.To(true)}})
	})
	single, guest := machine("alone", alone), object("karpenter.sh/v1", "NodeClaim", "alone", alone)
	owned := machine("owned", func(o *unstructured.Unstructured) {
		refs := o.GetOwnerReferences()
		refs[0].Controller = nil
		o.SetOwnerReferences(refs)
	})
	paused, skipped := machine("paused", annotated("cluster.x-k8s.io/paused")), machine("skipped", annotated("cluster.x-k8s.io/skip-remediation"))
	other := machine("other", func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"clusterName": "test"}
	})
	deletes := func(c client.Client, o *unstructured.Unstructured) func() error {
		return func() error { return client.NewDryRunClient(c).Delete(s.ctx, o.DeepCopy()) }
	}
	patches := func(o *unstructured.Unstructured, patch string) func() error {
		return func() error {
			return client.NewDryRunClient(own).Patch(s.ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	const mark = `{"metadata":{"annotations":{"cluster.x-k8s.io/remediate-machine":"x"}}}`
	p.until(func() bool { // rights and policies are in force
		err := deletes(own, single)()
		return deletes(own, nodeClaim)() == nil && err != nil && strings.Contains(err.Error(), "nobody makes anew")
	})
	for what, try := range map[string]func() error{
		"delete a Machine":                    deletes(own, good),
		"delete a Machine of a control plane": deletes(own, plane),
		"delete a NodeClaim":                  deletes(own, nodeClaim),
		"mark a Machine":                      patches(good, mark),
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const changes = "may change nothing of a Machine but the annotation"
	s.refused([]attempt{
		{"delete of a Machine that is alone", "nobody makes anew", deletes(own, single)},
		{"delete of a NodeClaim that is alone", "nobody makes anew", deletes(own, guest)},
		{"delete of a Machine that nobody controls", "nobody makes anew", deletes(own, owned)},
		{"delete of a Machine that is paused", "that is paused, or not to be remediated", deletes(own, paused)},
		{"delete of a Machine that is skipped", "that is paused, or not to be remediated", deletes(own, skipped)},
		{"delete of another Cluster's Machine", "a Machine of another Cluster", deletes(own, other)},
		{"delete by a token without a pod", "not bound to a pod", deletes(unbound, good)},
		{"mark of a Machine that is paused", "that is paused", patches(paused, mark)},
		{"another annotation", changes, patches(good, `{"metadata":{"annotations":{"b":"c"}}}`)},
		{"another's annotation", changes, patches(good, `{"metadata":{"annotations":{"a":null}}}`)},
		{"a label", changes, patches(good, `{"metadata":{"labels":{"b":"c"}}}`)},
		{"a finalizer", changes, patches(good, `{"metadata":{"finalizers":["a/b"]}}`)},
		{"an owner", changes, patches(good, `{"metadata":{"ownerReferences":null}}`)},
		{"the spec", changes, patches(good, `{"spec":{"providerID":"y"}}`)},
		{"a NodeClaim's annotation", `cannot patch resource "nodeclaims"`, patches(nodeClaim, `{"metadata":{"annotations":{"b":"c"}}}`)},
		{"a Machine that is new", `cannot create resource "machines"`, func() error {
			o := good.DeepCopy()
			o.SetName("new")
			o.SetResourceVersion("")
			return own.Create(s.ctx, o)
		}},
	})

	// What an action says of a machine it says with the claim.
	fresh, claimed, replacing := s.remoteAction(), s.remoteAction(), s.remoteAction()
	names := func(a *v1alpha1.NodeAction) {
		a.Status.Replace = &v1alpha1.ReplaceStatus{
			RunnerID: "remote",
			Machine:  v1alpha1.ExternalObject{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: "u"},
			Owner:    v1alpha1.ExternalObject{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "w", UID: "u"},
			Method:   v1alpha1.ReplaceDelete, Wanted: 1,
		}
	}
	s.must(claim(s.ctx, s.admin, claimed))
	claimedAt(0)(replacing)
	names(replacing)
	s.must(s.admin.Status().Update(s.ctx, replacing))
	node := s.client(s.account("runner", s.a))
	write := func(c client.Client, action *v1alpha1.NodeAction, changes ...func(*v1alpha1.NodeAction)) func() error {
		return func() error { return client.NewDryRunClient(c).Status().Update(s.ctx, with(action, changes...)) }
	}
	for what, try := range map[string]func() error{
		"claim with a machine": write(own, fresh, claimedAt(0), names),
		"replaced":             write(own, replacing, result(""), ended(v1alpha1.ReasonReplaced)),
		"not replaced":         write(own, replacing, result(""), ended(v1alpha1.ReasonNotReplaced)),
		"not begun":            write(own, replacing, ended(v1alpha1.ReasonNotStarted)),
		"timed out":            write(own, replacing, result(""), ended(v1alpha1.ReasonTimedOut)),
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.refused([]attempt{
		{"a machine after the claim", "says with the claim which machine is replaced", write(own, claimed, names)},
		{"replaced without a claim", "it had not claimed it before", write(own, fresh, claimedAt(0), names, ended(v1alpha1.ReasonReplaced))},
		{"replaced without a machine", "", write(own, claimed, ended(v1alpha1.ReasonReplaced))},
		{"power that was still on", "it had not said before that it would switch anything", write(own, replacing, result(""), ended(v1alpha1.ReasonPowerStillOn))},
		{"a machine by the node's runner", "it is for the remote runner", write(node, s.actionA, claimedAt(0), names)},
		{"replaced by the node's runner", "", write(node, s.actionA, ended(v1alpha1.ReasonReplaced))},
	})
	another := func(a *v1alpha1.NodeAction) { a.Status.Replace.Machine.UID = "another" }
	if err := write(own, replacing, another)(); err == nil || !strings.Contains(err.Error(), "which machine is replaced, and how, never changes") {
		t.Errorf("got %v", err)
	}
}

// Where no machine may be replaced, nobody has the right to; nor to BareMetalHosts that are no switches. For
// OpenStack nobody has any: that is in a clouds.yaml.
func TestTheRightsToMachinesFollowTheConfiguration(t *testing.T) {
	helm.Program(t)
	elsewhere := append([]string{
		"remoteRunner.config.replace.clusterAPI.namespace=fleet", "remoteRunner.config.replace.clusterAPI.cluster=prod",
		"remoteRunner.config.replace.clusterAPI.kubeconfig=/etc/nodemend/management/kubeconfig",
	}, remotely...)
	karpenter := append([]string{"remoteRunner.config.replace.karpenter=true"}, remotely...)
	openstack := append([]string{
		"remoteRunner.config.replace.magnum.cluster=5d12f6fd-a196-4bf0-ae4c-1f639a523a52", "remoteRunner.config.replace.magnum.cloudsFile=/etc/nodemend/openstack/clouds.yaml",
		"remoteRunner.config.switches[1].openstack.cloudsFile=/etc/nodemend/openstack/clouds.yaml",
	}, remotely...)
	hostsElsewhere := append([]string{
		"remoteRunner.config.switches[1].metal3.namespace=hosts", "remoteRunner.config.switches[1].metal3.host=bmh-7", "remoteRunner.config.switches[1].metal3.kubeconfig=/k",
	}, remotely...)
	for name, tt := range map[string]struct {
		values                      []string
		machines, nodeClaims, hosts bool
	}{
		"nothing":         {nil, false, false, false},
		"power":           {remotely, false, false, false},
		"elsewhere":       {elsewhere, false, false, false},
		"karpenter":       {karpenter, false, true, false},
		"both":            {replaces, true, true, false},
		"openstack":       {openstack, false, false, false},
		"hosts":           {metals, false, false, true},
		"hosts elsewhere": {hostsElsewhere, false, false, false},
	} {
		found := map[string]bool{}
		for _, obj := range rendered(t, tt.values...) {
			for _, rule := range rules(t, obj) {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						found[resource+" "+verb] = true
					}
				}
			}
		}
		if found["machines delete"] != tt.machines || found["machines patch"] != tt.machines || found["nodeclaims delete"] != tt.nodeClaims || found["baremetalhosts patch"] != tt.hosts {
			t.Errorf("%s: got %v", name, found)
		}
	}
}
