package command

import (
	"bytes"
	"os"
	"strconv"
)

// oomScore is the file with this process's OOM score adjustment (proc_pid_oom_score_adj(5)),
// which its children get. It is opened before the thread leaves for the host's /proc, in
// which the process may not be.
type oomScore struct {
	file *os.File
	own  int
}

// openOOMScore returns nothing if the process has the usual one.
func openOOMScore() (s oomScore) {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return s
	}
	text := make([]byte, 16)
	n, _ := file.ReadAt(text, 0)
	own, err := strconv.Atoi(string(bytes.TrimSpace(text[:n])))
	if err != nil || own == 0 {
		_ = file.Close() // was only read
		return s
	}
	return oomScore{file, own}
}

// usual lets what is started until restore be killed like other processes where memory
// is short, not last of all as the runner is. Meanwhile the runner is protected no more
// than they are, but so small that it is hardly a victim.
func (s oomScore) usual() { s.set(0) }

// restore gives the runner its own score back, which a process may that has had it.
func (s oomScore) restore() {
	s.set(s.own)
	_ = s.file.Close() // of nothing: an error
}

func (s oomScore) set(score int) {
	if s.file != nil {
		_, _ = s.file.WriteAt([]byte(strconv.Itoa(score)), 0) // without the right, all stays as it is
	}
}
