package child

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// readLimit is how long the beginning of a program may take to be read.
	readLimit = 5 * time.Second
	// page is how much of it the kernel reads to know how to execute it.
	page = 4 << 10
	// mostInterpreters is how many scripts may be each other's interpreters, as in the kernel.
	mostInterpreters = 5
)

// errHangs says that a program can't be read.
var errHangs = fmt.Errorf("it can't be read within %s: its disk hangs", readLimit)

// reading has the reads that have not returned, by their paths: a *look each.
var reading sync.Map

// look is a read of the beginning of a file.
type look struct {
	done chan struct{}
	head []byte
}

// readable returns an error if the beginning of the program, or of an interpreter that it names,
// is not read in time. While execve waits for a disk this whole process stands still at its next
// garbage collection: a goroutine that starts a program (CLONE_VFORK) can't be stopped. Once they
// were read they are in memory, unless that is taken from them right away. Of other errors the
// start tells.
func readable(path string, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for range mostInterpreters {
		l := beginLook(path)
		select {
		case <-l.done:
		case <-timer.C:
			return fmt.Errorf("%s: %w", path, errHangs)
		}
		if path = interpreter(l.head); path == "" {
			return nil
		}
	}
	return nil
}

// beginLook reads the beginning of a file, unless somebody does so already: of a disk that
// hangs one goroutine waits for each file.
func beginLook(path string) *look {
	l := &look{done: make(chan struct{})}
	if other, already := reading.LoadOrStore(path, l); already {
		return other.(*look)
	}
	go func() {
		l.head = beginning(path)
		reading.Delete(path)
		close(l.done)
	}()
	return l
}

// beginning returns the first page of a file, or as much as can be read.
func beginning(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // was only read
	head := make([]byte, page)
	n, _ := file.Read(head)
	return head[:n]
}

// interpreter returns the path that a script names after "#!"; "" if it is none.
func interpreter(head []byte) string {
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	if !isScript {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if words := strings.Fields(string(line)); len(words) > 0 {
		return words[0]
	}
	return ""
}
