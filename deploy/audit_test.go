package deploy_test

import (
	"io/fs"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

// system is the namespace that the sample names.
const system = "nodemend-system"

// auditLevels returns at which level the sample keeps a request, as the API server reads it.
func auditLevels(t *testing.T) func(who, verb, group, resource string) auditinternal.Level {
	t.Helper()
	data, err := deploy.Samples.ReadFile("samples/audit-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.LoadPolicyFromBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &auditv1.Policy{}); err != nil { // the API server passes over what it does not know
		t.Fatal(err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(rules)
	return func(who, verb, group, resource string) auditinternal.Level {
		if strings.HasPrefix(who, "nodemend-") {
			who = "system:serviceaccount:" + system + ":" + who
		}
		resource, subresource, _ := strings.Cut(resource, "/")
		request := authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: who}, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, ResourceRequest: true,
		}
		if !strings.HasPrefix(resource, "node") && group == "" || group == "apps" {
			request.Namespace = system
		}
		return evaluator.EvaluatePolicyRule(request).Level
	}
}

func TestTheAuditPolicyKeepsEveryWriteOfEveryKind(t *testing.T) {
	level := auditLevels(t)
	crds, err := fs.Glob(deploy.CRDs, "chart/crds/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, name := range crds {
		data, err := fs.ReadFile(deploy.CRDs, name)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			for _, who := range []string{"olga", "nodemend-controller", "nodemend-runner"} {
				if got := level(who, verb, crd.Spec.Group, crd.Spec.Names.Plural); got != auditinternal.LevelRequestResponse {
					t.Errorf("%s by %s: %s is kept at level %s", verb, who, crd.Spec.Names.Plural, got)
				}
			}
		}
		if got := level("nodemend-controller", "patch", crd.Spec.Group, crd.Spec.Names.Plural+"/status"); got == auditinternal.LevelNone {
			t.Errorf("the status of %s is not kept", crd.Spec.Names.Plural)
		}
	}
}

func TestTheAuditPolicyKeepsWhatMatters(t *testing.T) {
	level := auditLevels(t)
	ours := v1alpha1.GroupVersion.Group
	for _, test := range []struct {
		who, verb, group, resource string
		want                       auditinternal.Level
	}{
		{"nodemend-runner", "update", ours, "nodeactions/status", auditinternal.LevelRequest},
		{"olga", "patch", ours, "nodeactions/status", auditinternal.LevelRequest},
		{"nodemend-detector", "patch", "", "nodes/status", auditinternal.LevelRequest},
		{"nodemend-controller", "patch", "", "nodes", auditinternal.LevelRequest},
		{"nodemend-controller", "create", "", "pods/eviction", auditinternal.LevelRequest},
		{"nodemend-runner", "patch", "", "nodes", auditinternal.LevelMetadata}, // refused, and kept
		{"olga", "create", "", "serviceaccounts/token", auditinternal.LevelMetadata},
		{"olga", "create", "", "pods", auditinternal.LevelRequest},
		{"olga", "get", "", "pods/exec", auditinternal.LevelRequest},
		{"olga", "create", "", "pods/exec", auditinternal.LevelRequest},
		{"nodemend-runner", "get", "", "pods/exec", auditinternal.LevelRequest},
		{"olga", "get", "", "pods/attach", auditinternal.LevelRequest},
		{"olga", "get", "", "pods/portforward", auditinternal.LevelRequest},
		{"olga", "get", "", "pods/proxy", auditinternal.LevelRequest},
		{"olga", "patch", "", "pods/ephemeralcontainers", auditinternal.LevelRequest},
		{"olga", "update", "", "secrets", auditinternal.LevelMetadata},
		{"olga", "update", "apps", "daemonsets", auditinternal.LevelRequest},
		{"olga", "delete", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", auditinternal.LevelRequest},
		{"olga", "create", "rbac.authorization.k8s.io", "clusterrolebindings", auditinternal.LevelRequest},

		{"nodemend-runner", "watch", ours, "nodeactions", auditinternal.LevelNone},
		{"olga", "list", ours, "remediations", auditinternal.LevelNone},
		{"nodemend-runner", "patch", "", "events", auditinternal.LevelNone},
		{"nodemend-controller", "update", "coordination.k8s.io", "leases", auditinternal.LevelNone},
		{"nodemend-detector", "get", "", "nodes", auditinternal.LevelNone},
		{"system:node:a", "patch", "", "nodes/status", auditinternal.LevelNone},
	} {
		if got := level(test.who, test.verb, test.group, test.resource); got != test.want {
			t.Errorf("%s of %s %s by %s is kept at level %s, want %s", test.verb, test.group, test.resource, test.who, got, test.want)
		}
	}
}
