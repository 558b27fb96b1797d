//go:build integration

package perf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/test/process"
)

// grace is how long the controller may take to end.
const grace = 10 * time.Second

// program is a controller that runs as a process.
type program struct {
	*process.Process
	log string
}

// build builds the program and returns its path.
func (s *scene) build() string {
	path := filepath.Join(s.b.TempDir(), "nodemend")
	cmd := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/nodemend/nodemend/cmd/nodemend")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		s.b.Fatalf("building nodemend: %v: %s", err, output)
	}
	return path
}

// start starts the controller as in production, but for the metrics' address.
func (s *scene) start() program {
	p := program{log: filepath.Join(s.b.TempDir(), "controller.log")}
	log, err := os.Create(p.log)
	if err != nil {
		s.b.Fatal(err)
	}
	cmd := exec.CommandContext(s.ctx, s.path, "controller", "--kubeconfig="+s.kubeconfig,
		"--leader-election-namespace=default", "--metrics-address=", "--health-address=")
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.Process, err = process.Start(cmd, log); err != nil {
		s.b.Fatal(err)
	}
	return p
}

// stop ends the controller, which must not have ended by itself.
func (s *scene) stop(p program) {
	if p.HasExited() {
		tail, _ := process.Tail(p.log, 4000)
		s.b.Fatalf("the controller has ended: %v: %s", p.Err, tail)
	}
	if _, err := p.StopGroup(grace); err != nil {
		s.b.Fatal(err)
	}
}

// cpu returns the processor time that the process has taken, to the microsecond,
// unlike /proc/<pid>/stat, which counts hundredths of a second.
func (s *scene) cpu(p program) time.Duration {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Pid))
	if err != nil || len(files) == 0 {
		s.b.Fatalf("no threads of process %d: %v", p.Pid, err)
	}
	var sum time.Duration
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended, which those of Go hardly ever do
		}
		running, _, _ := strings.Cut(string(data), " ")
		nanoseconds, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			s.b.Fatal(err)
		}
		sum += time.Duration(nanoseconds)
	}
	return sum
}

// memory returns a line of /proc/<pid>/status in MiB: VmRSS is what is resident, and
// VmHWM the most that ever was.
func (s *scene) memory(p program, line string) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
	if err != nil {
		s.b.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), line+":")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		s.b.Fatalf("process %d has no %s", p.Pid, line)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		s.b.Fatal(err)
	}
	return kib / 1024
}

// logged returns the size of the log in KiB.
func (s *scene) logged(p program) float64 {
	info, err := os.Stat(p.log)
	if err != nil {
		s.b.Fatal(err)
	}
	return float64(info.Size()) / 1024
}
