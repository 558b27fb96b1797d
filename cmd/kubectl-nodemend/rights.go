package main

import (
	"fmt"
	"regexp"
	"slices"
)

// lacked is how the API server names a right that somebody lacks.
var lacked = regexp.MustCompile(`cannot (\S+) resource "([^"]+)" in API group "([^"]*)"`)

// grant is a rule of a ClusterRole for people: deploy/chart/templates/rbac-people.yaml.
type grant struct {
	role, group      string
	resources, verbs []string
}

func grants() []grant {
	return []grant{
		{"nodemend-view", "nodemend.dev", []string{"remedypolicies", "remediationbudgets", "remediations", "nodeactions", "nodemaintenances", "nodemendremediations", "nodemendremediationtemplates"}, []string{"get", "list", "watch"}},
		{"nodemend-view", "", []string{"nodes", "pods"}, []string{"get", "list", "watch"}},
		{"nodemend-view", "apps", []string{"daemonsets", "deployments"}, []string{"list"}},
		{"nodemend-view", "coordination.k8s.io", []string{"leases"}, []string{"get"}},
		{"nodemend-view", "cluster.x-k8s.io", []string{"machines"}, []string{"get"}},
		{"nodemend-view", "karpenter.sh", []string{"nodeclaims"}, []string{"get"}},
		{"nodemend-view", "config.openshift.io", []string{"clusterversions"}, []string{"get"}},
		{"nodemend-view", "rbac.authorization.k8s.io", []string{"clusterrolebindings"}, []string{"get"}},
		{"nodemend-view", "storage.k8s.io", []string{"volumeattachments"}, []string{"list"}},
		{"nodemend-edit", "nodemend.dev", []string{"remediations", "nodemaintenances", "remediationbudgets"}, []string{"create", "patch", "delete"}},
	}
}

// lacksRight adds to an error which ClusterRole has the right that it names. It adds
// nothing to the refusal of an admission policy, which no right lifts.
func lacksRight(err error) error {
	match := lacked.FindStringSubmatch(err.Error())
	if match == nil {
		return err
	}
	verb, resource, group := match[1], match[2], match[3]
	for _, g := range grants() {
		if g.group == group && slices.Contains(g.resources, resource) && slices.Contains(g.verbs, verb) {
			return fmt.Errorf("%w; the ClusterRole %s allows to %s %s (docs/cli.md)", err, g.role, verb, resource)
		}
	}
	return fmt.Errorf("%w; no ClusterRole of Nodemend allows to %s %s: it takes one of your own (docs/cli.md)", err, verb, resource)
}
