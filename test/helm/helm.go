// Package helm runs the Helm of tools/release on the chart of this repository.
package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Chart is the chart, for Run.
const Chart = "deploy/chart"

// Run runs Helm in the top directory of the repository, without the settings of whoever
// runs the test, and returns what it prints. The error holds Helm's own words. The first
// run on a machine builds Helm, which takes minutes: see Program.
func Run(t testing.TB, args ...string) (string, error) {
	t.Helper()
	program := Program(t)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = Root(t)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w: %s%s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()), bytes.TrimSpace(stdout.Bytes()))
	}
	return stdout.String(), nil
}

// program is the path of Helm, once it is known. It is a package variable since finding
// it takes most of what a run takes.
var program struct {
	sync.Mutex
	path string
}

// Program returns the path of Helm, and builds it unless it is in Go's build cache.
func Program(t testing.TB) string {
	t.Helper()
	program.Lock()
	defer program.Unlock()
	if program.path == "" {
		// The build is not the test's, whose time may be short.
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "tool", "-modfile="+Root(t)+"/tools/release/go.mod", "-n", "helm")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("building Helm: %v: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		program.path = strings.TrimSpace(string(out))
	}
	return program.path
}

// Template renders the chart for a namespace with these further arguments.
func Template(t testing.TB, namespace string, args ...string) string {
	t.Helper()
	out, err := Run(t, append([]string{"template", "nodemend", Chart, "--namespace=" + namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Root returns the top directory of the repository.
func Root(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("looking for the top directory of the repository: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}
