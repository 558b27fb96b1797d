//go:build integration

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/test/helm"
)

func TestArgoCDSeesTheHealthOfPoliciesAndBudgets(t *testing.T) {
	data, err := os.ReadFile("gitops/argocd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Data map[string]string }
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+helm.Root(t)+"/tools/lua/go.mod", "-n", "glua").Output()
	if err != nil {
		t.Fatal("building the interpreter of Lua:", err)
	}
	glua := strings.TrimSpace(string(out))
	for name, test := range healths() {
		t.Run(name, func(t *testing.T) {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.object)
			if err != nil {
				t.Fatal(err)
			}
			health, found := file.Data[fmt.Sprintf("resource.customizations.health.nodemend.dev_%s", object["kind"])]
			if !found {
				t.Fatal("there is no script for the kind", object["kind"])
			}
			script := filepath.Join(t.TempDir(), "health.lua")
			text := "obj = " + luaOf(object) + "\nlocal function health()\n" + health + "\nend\nlocal hs = health()\nio.write(hs.status, ': ', hs.message)\n"
			if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := exec.CommandContext(t.Context(), glua, script).CombinedOutput()
			if err != nil || string(got) != test.argo {
				t.Errorf("Argo CD has it as %q (%v), want %q", got, err, test.argo)
			}
		})
	}
}

// luaOf returns a value as Lua writes it.
func luaOf(value any) string {
	var parts []string
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			parts = append(parts, fmt.Sprintf("[%q] = %s", key, luaOf(field)))
		}
	case []any:
		for _, item := range value {
			parts = append(parts, luaOf(item))
		}
	case string:
		return fmt.Sprintf("%q", value)
	case nil:
		return "nil"
	default:
		return fmt.Sprint(value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
