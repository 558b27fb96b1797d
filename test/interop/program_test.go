//go:build integration

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/test/helm"
	"github.com/nodemend/nodemend/test/process"
)

// program is one of others, as test/interop/build leaves it.
type program struct{ dir string }

// built is the program of this name. Where the modules can't be had, its test is skipped.
func built(t *testing.T, name string) program {
	t.Helper()
	dir := filepath.Join(helm.Root(t), "bin", "interop")
	if why, err := os.ReadFile(filepath.Join(dir, "missing")); err == nil {
		t.Skipf("%s can't be had: %s", name, why)
	}
	p := program{filepath.Join(dir, name)}
	if _, err := os.Stat(p.path()); err != nil {
		t.Fatalf("%v: run make interop", err)
	}
	return p
}

func (p program) path() string { return filepath.Join(p.dir, "program") }

// files is the folder with its CRDs, and what else comes with it.
func (p program) files() string { return filepath.Join(p.dir, "files") }

// start runs the program until the test ends, in an environment of these variables. One that ends by
// itself fails the test.
func (w *world) start(p program, env []string, args ...string) *process.Process {
	w.t.Helper()
	name := filepath.Base(p.dir)
	path := filepath.Join(w.dir, name+".log")
	log, err := os.Create(path)
	w.Expect(err).NotTo(HaveOccurred())
	child, err := process.Start(&exec.Cmd{
		Path: p.path(), Args: append([]string{name}, args...), Dir: w.dir,
		Env:    append([]string{"HOME=" + w.dir, "TMPDIR=" + w.dir, "PATH=" + os.Getenv("PATH")}, env...),
		Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, log)
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() {
		if child.HasExited() {
			w.t.Errorf("%s has ended by itself: %v", name, child.Err)
		}
		child.Kill()
		if !w.t.Failed() {
			return
		}
		if tail, err := process.Tail(path, 20<<10); err == nil {
			w.t.Logf("the end of the log of %s:\n%s", name, tail)
		}
	})
	return child
}
