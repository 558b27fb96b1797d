package docs

import (
	"regexp"
	"strings"
	"testing"
)

func TestThePageOfSupportNamesTheVersionsThatTestsRunWith(t *testing.T) {
	page := read(t, "docs/support.md")
	for what, of := range map[string]struct{ file, version, named string }{
		"newest Kubernetes": {"test/controlplane/go.mod", `k8s\.io/kubernetes v(1\.\d+\.\d+)`, "(v%) | tested |"},
		"oldest Kubernetes": {"deploy/chart/Chart.yaml", `kubeVersion: ">=(1\.\d+)\.0-0"`, "| Kubernetes % to "},
		"oldest as tested":  {"test/oldest/go.mod", `k8s\.io/kubernetes v(1\.\d+\.\d+)`, "(v%) tested before a release |"},
		"Helm":              {"tools/release/go.mod", `helm\.sh/helm/v\d+ v(\d+\.\d+)`, "| Helm % | tested |"},
		"OpenShift":         {"deploy/chart/templates/rbac-runner.yaml", `name: (nodemend-runner)`, " -z % "},
		"OpenShift too":     {"deploy/chart/templates/rbac-detector.yaml", `name: (nodemend-detector)`, " -z % "},
	} {
		found := regexp.MustCompile(of.version).FindStringSubmatch(read(t, of.file))
		if found == nil {
			t.Errorf("%s: %s does not match %s", what, of.file, of.version)
			continue
		}
		if want := strings.ReplaceAll(of.named, "%", found[1]); !strings.Contains(page, want) {
			t.Errorf("%s: docs/support.md does not say %q", what, want)
		}
	}
}
