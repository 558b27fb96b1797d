package thread

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/stalled"
)

// patience bounds every wait: only what hangs needs it.
const patience = 5 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a file of a name that only this test uses.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	return file
}

// lock returns whether a file could be locked that was opened anew.
func lock(t *testing.T, path string) bool {
	t.Helper()
	file := open(t, path)
	defer func() { must(t, file.Close()) }()
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		must(t, err)
	}
	return err == nil
}

func TestAFileThatIsHeldStaysLockedUntilItIsReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	file := open(t, path)
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	release, err := Hold(file)
	must(t, err)
	must(t, file.Close())
	files, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, file := range files {
		if to, _ := os.Readlink(file); to == path {
			t.Errorf("%s is open in the other threads, too", to)
		}
	}
	if lock(t, path) {
		t.Error("it is not locked")
	}
	release()
	release()
	if !lock(t, path) {
		t.Error("it is locked still")
	}
}

func TestWhoHoldsAFileHoldsNoOther(t *testing.T) {
	reader, writer, err := os.Pipe()
	must(t, err)
	file := open(t, filepath.Join(t.TempDir(), "lock"))
	release, err := Hold(file)
	must(t, err)
	defer release()
	must(t, errors.Join(file.Close(), writer.Close()))
	if _, err := io.ReadAll(reader); err != nil { // which ends once nobody has the other end
		t.Error(err)
	}
}

// Go ends the process where a thread lacks a file that it needs.
func TestAThreadThatHoldsAFileCanDoWhatGoNeeds(t *testing.T) {
	reader, writer, err := os.Pipe()
	must(t, err)
	read := make(chan error, 1)
	go func() { // so somebody waits in the poller
		_, err := io.ReadAll(reader)
		read <- err
	}()
	Own(func() {
		err := unshareFiles()
		for range 100 {
			err = errors.Join(err, closeAllBut(-1))
			runtime.GC()
			soon, enough := context.WithTimeout(t.Context(), time.Millisecond)
			<-soon.Done() // to wait for time is to wake the poller
			enough()
		}
		if err != nil {
			t.Error(err)
		}
	})
	must(t, errors.Join(writer.Close(), <-read))
}

func TestAProcessThatWasKilledHoldsNothingAlthoughItHangs(t *testing.T) {
	dir := t.TempDir()
	content, mountpoint, path := filepath.Join(dir, "content"), filepath.Join(dir, "disk"), filepath.Join(dir, "lock")
	must(t, errors.Join(os.Mkdir(content, 0o700), os.Mkdir(mountpoint, 0o700)))
	disk, err := stalled.Mount(content, mountpoint)
	if errors.Is(err, stalled.ErrUnavailable) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, disk.Unmount()) })
	must(t, open(t, path).Close())
	log := open(t, filepath.Join(dir, "log"))
	disk.Stall()
	p, err := process.Start(&exec.Cmd{
		Path: "/proc/self/exe", Args: []string{os.Args[0], filepath.Join(mountpoint, "file")}, Stderr: log,
		Env: append(os.Environ(), hungEnv+"="+path),
	}, log)
	must(t, err)
	t.Cleanup(func() {
		_ = p.Signal(unix.SIGKILL)
		disk.Resume()
		<-p.Exited
	})
	ctx, enough := context.WithTimeout(t.Context(), patience)
	defer enough()
	until := func(what string, so func() bool) {
		t.Helper()
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return so() || p.HasExited(), nil })
		if err != nil || p.HasExited() {
			said, _ := process.Tail(log.Name(), 1<<10)
			t.Fatalf("waiting until %s: it has exited: %t; %v; %s", what, p.HasExited(), err, said)
		}
	}
	until("it hangs", func() bool { return disk.Waiting() > 0 })
	if lock(t, path) {
		t.Error("it does not hold the file")
	}
	must(t, p.Signal(unix.SIGKILL))
	until("the file can be locked", func() bool { return lock(t, path) })
}
