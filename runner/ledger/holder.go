package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// holder is the process that has the lock, as it has written into its file.
type holder struct {
	PID int `json:"pid"`
	// StartTime is field 22 of proc_pid_stat(5), which no other process with this PID has.
	StartTime string `json:"startTime"`
	// Namespace is that of the PID, as in pid_namespaces(7).
	Namespace string `json:"namespace"`
}

// itself is this process.
func itself() (holder, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return holder{}, err
	}
	s, err := statOf("/proc", "self")
	return holder{PID: os.Getpid(), StartTime: s.startTime, Namespace: namespace}, err
}

// write replaces what the file says.
func (h holder) write(file *os.File) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	return err
}

// holderIn returns what the file says; the zero value if that is nothing, as under earlier
// versions.
func holderIn(file *os.File) (h holder) {
	data, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<10))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return holder{}
	}
	return h
}

// killed says whether the process executes nothing any more, although threads of it are still
// there, which hang in the kernel: a thread that SIGKILL has come for, or that ends, never leaves
// the kernel again. If nobody can tell, it was not killed.
func (h holder) killed(proc, namespace string) bool {
	if h.PID == 0 || h.Namespace != namespace {
		return false
	}
	process, err := statOf(proc, strconv.Itoa(h.PID))
	if err != nil || process.startTime != h.StartTime {
		return false
	}
	tasks := filepath.Join(proc, strconv.Itoa(h.PID), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return false
	}
	hang := 0
	for _, thread := range threads {
		s, err := statOf(tasks, thread.Name())
		switch {
		case err != nil, !s.isZombie() && !s.isEnding():
			return false
		case !s.isZombie():
			hang++
		}
	}
	return hang > 0 // the last one gives the lock back
}

// stat is what proc_pid_stat(5) says of a process or of one of its threads.
type stat struct {
	state, startTime string
	flags, pending   uint64
}

func (s stat) isZombie() bool { return s.state == "Z" || s.state == "X" }

func (s stat) isEnding() bool {
	const exiting = 0x4 // PF_EXITING of the kernel's sched.h
	return s.flags&exiting != 0 || s.pending&(1<<(unix.SIGKILL-1)) != 0
}

func statOf(dir, id string) (s stat, err error) {
	path := filepath.Join(dir, id, "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	// What comes before is the name, in which there may be anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 29 {
		return stat{}, fmt.Errorf("%s: it has %d fields after the name", path, len(fields))
	}
	s.state, s.startTime = fields[0], fields[19]
	if s.flags, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
		return stat{}, fmt.Errorf("%s: %w", path, err)
	}
	if s.pending, err = strconv.ParseUint(fields[28], 10, 64); err != nil {
		return stat{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
