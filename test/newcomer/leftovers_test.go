//go:build integration

package newcomer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// forgetConditions removes the detector's conditions from the node, as docs/install.md
// has it.
func (s *scene) forgetConditions() {
	s.Helper()
	for _, condition := range s.foreignConditions() {
		s.kubectl("patch", "node", s.node, "--subresource=status", `--patch={"status":{"conditions":[{"$patch":"delete","type":"`+condition+`"}]}}`)
	}
}

// foreignConditions are those that the node has got since the installation.
func (s *scene) foreignConditions() (types []string) {
	s.Helper()
	for _, condition := range s.get(s.node).Status.Conditions {
		if !s.conditions[string(condition.Type)] {
			types = append(types, string(condition.Type))
		}
	}
	return types
}

// isFound makes sure, while everything is there, that leftovers would find it.
func (s *scene) isFound() {
	s.Helper()
	found := strings.Join(s.leftovers(), "\n")
	for _, resource := range []string{
		"condition", "nodes", "namespaces", "customresourcedefinitions",
		"clusterroles", "clusterrolebindings", "roles", "rolebindings", "serviceaccounts",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"daemonsets", "controllerrevisions", "deployments", "replicasets", "pods", "leases", "networkpolicies", "poddisruptionbudgets", "resourcequotas",
		"remedypolicies", "remediationbudgets", "remediations", "nodeactions", "nodemaintenances",
		"nodemendremediations", "nodemendremediationtemplates",
	} {
		if !strings.Contains("\n"+found, "\n"+resource+" ") {
			s.Errorf("the search for leftovers does not see %s", resource)
		}
	}
}

// nothingIsLeft looks through all objects of all kinds for what bears our name, be it
// in a label, an annotation, a taint or a finalizer, and for cordons and conditions.
// Only events are left, for an hour.
func (s *scene) nothingIsLeft() {
	s.Helper()
	if left := s.leftovers(); len(left) > 0 {
		s.Errorf("there is left:\n%s", strings.Join(left, "\n"))
	}
}

func (s *scene) leftovers() (left []string) {
	s.Helper()
	for _, condition := range s.foreignConditions() {
		left = append(left, "condition "+condition+" of node "+s.node)
	}
	quiet := rest.CopyConfig(s.cluster.Config)
	quiet.WarningHandler = rest.NoWarnings{} // of kinds that are deprecated
	objects, err := dynamic.NewForConfig(quiet)
	s.must(err)
	kinds, err := discovery.ServerPreferredResources(s.client.Discovery())
	s.must(err)
	for _, kind := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, kinds) {
		version, err := schema.ParseGroupVersion(kind.GroupVersion)
		s.must(err)
		for _, resource := range kind.APIResources {
			if resource.Name == "events" {
				continue
			}
			list, err := objects.Resource(version.WithResource(resource.Name)).List(s.ctx, metav1.ListOptions{})
			s.must(err)
			for i := range list.Items {
				if trace := s.trace(&list.Items[i]); trace != "" {
					left = append(left, fmt.Sprintf("%s %s/%s: %s", resource.Name, list.Items[i].GetNamespace(), list.Items[i].GetName(), trace))
				}
			}
		}
	}
	return left
}

// trace returns what of an object is ours.
func (s *scene) trace(obj *unstructured.Unstructured) string {
	s.Helper()
	obj.SetManagedFields(nil)
	if cordoned, _, _ := unstructured.NestedBool(obj.Object, "spec", "unschedulable"); cordoned && obj.GetKind() == "Node" {
		return "cordoned"
	}
	text, err := json.Marshal(obj.Object)
	s.must(err)
	if i := bytes.Index(text, []byte("nodemend")); i >= 0 {
		return string(text[max(0, i-40):min(len(text), i+60)])
	}
	return ""
}
