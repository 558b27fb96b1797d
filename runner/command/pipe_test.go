package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestACommandMayPrintALotWhileNoRunnerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "output")
	if err := makePipe(path); err != nil {
		t.Fatal(err)
	}
	out, write, err := openPipe(path, &v1alpha1.OutputPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = write.Close() }()
	out.close() // the runner is killed
	if err := unix.SetNonblock(int(write.Fd()), true); err != nil {
		t.Fatal(err)
	}
	want := pipeSize
	_, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := unix.FcntlInt(other.Fd(), unix.F_SETPIPE_SZ, pipeSize); err != nil {
		t.Logf("a pipe of %d bytes can't be had: %v", pipeSize, err)
		want = unprivilegedPipeSize
	}
	printed, line := 0, make([]byte, 4096)
	for {
		n, err := unix.Write(int(write.Fd()), line)
		if errors.Is(err, unix.EAGAIN) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		printed += n
	}
	if printed < want {
		t.Errorf("the command can print %d bytes before it has to wait, want %d", printed, want)
	}

	next, err := readPipe(path, newOutput(&v1alpha1.OutputPolicy{}, false))
	if err != nil {
		t.Fatal(err)
	}
	defer next.close()
	if text, truncated := next.finish(true); text == "" || !truncated {
		t.Errorf("the next runner has read %d bytes, truncated %t", len(text), truncated)
	}
}
