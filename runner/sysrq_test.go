//go:build integration

package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/process"
)

func TestARebootWhoseRunnerIsKilledHalfwayIsBroughtToItsEndByTheNext(t *testing.T) {
	f := newFixture(t)
	proc, err := process.OwnProc(f.dir)
	f.must(err)
	r := crashRunner{
		Kubeconfig: f.cluster.Kubeconfig, Node: f.node.Name, Dir: f.dir, Proc: proc,
		Execution: command.Direct, Point: "before-reset",
	}
	kernel := newSysRq(f, r.options().SysRqPath)
	f.rebootBySysRq()
	p := r.start(f)
	f.newAction(0)
	kernel.expect("s", "u")
	select {
	case <-p.Exited:
	case <-f.ctx.Done():
		f.Fatalf("the runner did not come to %s; its log: %s", r.Point, f.read(filepath.Join(r.Dir, "runner.log")))
	}
	r.Point = ""
	r.start(f)
	kernel.expect("s", "u", "b")
}

func TestARebootThatHadNotBegunWhenItsRunnerWasKilledIsNotBegunByTheNext(t *testing.T) {
	f := newFixture(t)
	proc, err := process.OwnProc(f.dir)
	f.must(err)
	r := crashRunner{
		Kubeconfig: f.cluster.Kubeconfig, Node: f.node.Name, Dir: f.dir, Proc: proc,
		Execution: command.Direct, Point: "after-ledger",
	}
	sysrq := r.options().SysRqPath
	f.must(os.WriteFile(sysrq, nil, 0o600))
	f.rebootBySysRq()
	p := r.start(f)
	action := f.newAction(0)
	<-p.Exited
	r.Point = ""
	r.start(f)
	f.expect(action, v1alpha1.ReasonNotStarted, 0)
	if written := f.read(sysrq); written != "" {
		t.Errorf("%q was written to the kernel's SysRq", written)
	}
}

// rebootBySysRq makes the policy's step one.
func (f *fixture) rebootBySysRq() {
	f.Helper()
	f.policy.Spec.Steps[0] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}}
	f.must(f.client.Update(f.ctx, f.policy))
}

// sysRq is the kernel's end of a pipe.
type sysRq struct {
	*fixture
	*os.File
}

func newSysRq(f *fixture, path string) sysRq {
	f.Helper()
	f.must(unix.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	f.must(err)
	f.Cleanup(func() { _ = file.Close() })
	return sysRq{f, file}
}

// next returns the next byte that the kernel gets, or says why there is none.
func (s sysRq) next() string {
	s.Helper()
	deadline, _ := s.ctx.Deadline()
	s.must(s.SetReadDeadline(deadline))
	var got [1]byte
	if _, err := s.Read(got[:]); err != nil {
		return err.Error()
	}
	return string(got[:])
}

// expect checks what is written next.
func (s sysRq) expect(commands ...string) {
	s.Helper()
	for _, want := range commands {
		if got := s.next(); got != want {
			s.Fatalf("%q was written to the kernel's SysRq, want %q", got, want)
		}
	}
}
