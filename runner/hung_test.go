//go:build integration

package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/stalled"
)

func TestAKilledRunnerThatHangsOnADeadDiskDoesNotHoldUpTheNext(t *testing.T) {
	f := newFixture(t)
	content, mountpoint := filepath.Join(f.dir, "content"), filepath.Join(f.dir, "disk")
	f.must(errors.Join(os.Mkdir(mountpoint, 0o700), os.MkdirAll(filepath.Join(content, "root", "etc", "nodemend"), 0o755)))
	disk, err := stalled.Mount(content, mountpoint)
	if errors.Is(err, stalled.ErrUnavailable) {
		t.Skip(err)
	}
	f.must(err)
	f.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	proc, err := process.OwnProc(f.dir)
	f.must(err)
	r := crashRunner{
		Kubeconfig: f.cluster.Kubeconfig, Node: f.node.Name, Dir: f.dir, Proc: proc,
		Execution: command.Direct, HostRoot: filepath.Join(mountpoint, "root"),
	}
	p := r.start(f)
	f.Cleanup(disk.Resume) // before the runner is awaited
	f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1)
	disk.Stall()
	f.expect(f.newAction(0), v1alpha1.ReasonRefused, 1) // what has read the file for it hangs
	f.must(p.Signal(unix.SIGKILL))
	f.start(nil) // the host root of this one is well
	f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 2)
	select {
	case <-p.Exited:
		t.Error("the killed runner did not hang: the test shows nothing")
	default:
	}
}
