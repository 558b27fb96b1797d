//go:build integration

package runner_test

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

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
	var command [1]byte
	if _, err := s.Read(command[:]); err != nil {
		return err.Error()
	}
	return string(command[:])
}
