//go:build integration

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/deploy"
)

func TestTheAPIServerAcceptsTheWorkloads(t *testing.T) {
	s := newScene(t)
	strict := client.WithFieldValidation(client.NewDryRunClient(s.admin), "Strict")
	for _, obj := range objects(t, deploy.Workloads) {
		if err := strict.Create(s.ctx, &obj); err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

func TestTheProgramKnowsTheArgumentsOfTheWorkloads(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nodemend")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "../cmd/nodemend")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v: %s", err, output)
	}
	for role, pod := range pods(t) {
		args := pod.Containers[0].Args
		if args[0] != role {
			t.Errorf("the workload of the %s runs the %s", role, args[0])
		}
		// Flags are read before --help is heeded.
		if output, err := exec.CommandContext(t.Context(), program, append(args, "--help")...).CombinedOutput(); err != nil {
			t.Errorf("the program refuses %q: %v: %s", args, err, output)
		}
	}
}
