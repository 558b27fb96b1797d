package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func TestTheRolesThatHintsNameAreThoseThatAreInstalled(t *testing.T) {
	file, err := os.Open("../../deploy/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // was only read
	var installed, known []string
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var role rbacv1.ClusterRole
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil && role.Kind == "ClusterRole" {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" || role.Name != "nodemend-view" && role.Name != "nodemend-edit" {
			continue
		}
		for _, rule := range role.Rules {
			installed = append(installed, strings.Join(slices.Concat([]string{role.Name}, rule.APIGroups, rule.Resources, rule.Verbs), " "))
		}
	}
	for _, g := range grants() {
		known = append(known, strings.Join(slices.Concat([]string{g.role, g.group}, g.resources, g.verbs), " "))
	}
	slices.Sort(installed)
	slices.Sort(known)
	if !slices.Equal(installed, known) {
		t.Errorf("installed are\n%s\nknown are\n%s", strings.Join(installed, "\n"), strings.Join(known, "\n"))
	}
}

func TestWhoLacksARightIsToldWhichRoleHasIt(t *testing.T) {
	for said, want := range map[string]string{
		`User "olga" cannot list resource "remediations" in API group "nodemend.dev" at the cluster scope`:       "; the ClusterRole nodemend-view allows to list remediations (docs/cli.md)",
		`User "olga" cannot create resource "nodemaintenances" in API group "nodemend.dev" at the cluster scope`: "; the ClusterRole nodemend-edit allows to create nodemaintenances (docs/cli.md)",
		`User "olga" cannot patch resource "nodes" in API group "" at the cluster scope`:                         "; no ClusterRole of Nodemend allows to patch nodes: it takes one of your own (docs/cli.md)",
		`User "olga" cannot patch resource "remedypolicies" in API group "nodemend.dev" at the cluster scope`:    "; no ClusterRole of Nodemend allows to patch remedypolicies: it takes one of your own (docs/cli.md)",
		`User "olga" cannot delete resource "remedypolicies" in API group "nodemend.dev" at the cluster scope`:   "; no ClusterRole of Nodemend allows to delete remedypolicies: it takes one of your own (docs/cli.md)",
		`ValidatingAdmissionPolicy 'x' with binding 'x' denied request: a remediation says what its policy says`: "",
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New(said))
		if got := explained(err).Error(); got != err.Error()+want {
			t.Errorf("%s\ngot  %s\nwant %s", said, got, want)
		}
	}
}
