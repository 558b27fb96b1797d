//go:build !agent

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// Who makes an account by the help alone would find out only from the log what is missing.
func TestTheHelpOfARoleNamesAllThatItsAccountMayDo(t *testing.T) {
	install, err := os.ReadFile(filepath.Join("..", "..", "deploy", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for role, help := range map[string]string{"controller": controllerHelp, "detector": detectorHelp, "runner": runnerHelp} {
		rules := 0
		for document := range strings.SplitSeq(string(install), "\n---\n") {
			var object rbacv1.ClusterRole // a Role has the same fields
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(object.Kind, "Role") || !strings.HasPrefix(object.Name, "nodemend-"+role) {
				continue
			}
			for _, rule := range object.Rules {
				for _, resource := range rule.Resources {
					rules++
					name := strings.TrimSuffix(resource, "/status") // "patch the status of …"
					if resource == "pods/eviction" {
						name = "evictions"
					}
					if !strings.Contains(help, name) {
						t.Errorf("the help of the %s does not name %s, and its account may %v that", role, resource, rule.Verbs)
					}
				}
			}
		}
		if rules == 0 {
			t.Errorf("the %s has no rights", role)
		}
	}
}
