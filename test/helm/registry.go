package helm

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Registry starts a registry of images and charts on loopback, without TLS, for the test
// alone. It returns its host and port.
func Registry(t testing.TB) string {
	t.Helper()
	program := Tool(t, "github.com/google/go-containerregistry/cmd/registry")
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, "-port=0")
	log, err := cmd.StderrPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		cancel()
		t.Fatal(err)
	}
	lines := bufio.NewReader(log)
	first, err := lines.ReadString('\n')
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, lines)
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait() // killed
	})
	port := regexp.MustCompile(`serving on port (\d+)`).FindStringSubmatch(first)
	if port == nil {
		t.Fatalf("the registry says %q: %v", first, err)
	}
	return "localhost:" + port[1]
}

// Tool builds a program of tools/release, and returns its path.
func Tool(t testing.TB, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-C", Root(t)+"/tools/release", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v: %s", pkg, err, output)
	}
	return path
}
