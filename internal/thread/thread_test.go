package thread

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAThreadOfItsOwnIsNobodyElses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waits := unix.Gettid()
	for range 100 {
		Own(func() {
			if id := unix.Gettid(); id == waits || id == os.Getpid() {
				t.Errorf("it runs on thread %d; %d waits for it, and the process began with %d", id, waits, os.Getpid())
			}
		})
	}
}
