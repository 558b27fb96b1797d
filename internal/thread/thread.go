// Package thread runs what changes a thread for good, or has to end with one.
package thread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Own runs f on a thread that ends with it, or a bit later. It is never the thread that the
// process began with, whose namespaces and open files are seen as those of the process, and
// which does not end before the process does. While f runs, the thread does nothing else. It
// is the thread of all that f does without another goroutine.
func Own(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return // locked: this ends the thread
		}
		Own(f)
		runtime.UnlockOSThread()
	}()
	<-done
}
