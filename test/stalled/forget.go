package stalled

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Forget takes the pages of an open file out of memory, and before that out of the
// process that has executed it, as the kernel does where memory is short: what the
// process has locked stays. It returns how many kB of the file the process still has.
func Forget(pid int, file *os.File) (left int, err error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(process) }()
	areas, err := areasOf(pid, file.Name())
	if err != nil {
		return 0, err
	}
	for _, a := range areas {
		iovec := struct{ from, length uintptr }{a.from, a.to - a.from} // of the other process
		_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(process), uintptr(unsafe.Pointer(&iovec)), 1, unix.MADV_PAGEOUT, 0, 0)
		if errno != 0 && !errors.Is(errno, unix.EINVAL) { // which is the answer for what is locked
			return 0, fmt.Errorf("process_madvise: %w", errno)
		}
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, fmt.Errorf("posix_fadvise: %w", err)
	}
	areas, err = areasOf(pid, file.Name())
	for _, a := range areas {
		left += a.resident
	}
	return left, err
}

// area is a part of a process's memory that is of a file.
type area struct {
	from, to uintptr
	resident int // kB
}

// areasOf reads proc_pid_smaps(5).
func areasOf(pid int, path string) (areas []area, err error) {
	smaps, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = smaps.Close() }() // was only read
	ours := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		var a area
		if _, err := fmt.Sscanf(line, "%x-%x ", &a.from, &a.to); err == nil {
			if ours = strings.HasSuffix(line, " "+path); ours {
				areas = append(areas, a)
			}
		} else if ours && strings.HasPrefix(line, "Rss:") {
			if _, err := fmt.Sscanf(line, "Rss: %d kB", &areas[len(areas)-1].resident); err != nil {
				return nil, fmt.Errorf("reading %s: %q: %w", smaps.Name(), line, err)
			}
		}
	}
	return areas, lines.Err()
}
