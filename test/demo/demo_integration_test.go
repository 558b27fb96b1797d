//go:build integration

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// patience bounds what would hang for ever.
const patience = 10 * time.Minute

var (
	programs string // the directory of all that the demo is made of
	root     = filepath.Join("..", "..")
	colour   = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	breakIt  = regexp.MustCompile(`kill -STOP (\d+)`)
	exports  = regexp.MustCompile(`(?m)^ {2}(export .*)\r$`)
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "demo-programs-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(programs) }()
		for _, build := range [][]string{
			{"nodemend", "./cmd/nodemend"}, {"nodemend-agent", "-tags=agent", "./cmd/nodemend"}, {"kubectl-nodemend", "./cmd/kubectl-nodemend"}, {"demo", "./test/demo"},
		} {
			cmd := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(programs, build[0])}, build[1:]...)...)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "building %s: %v: %s\n", build[0], err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// shown is a demo that runs in a terminal of 80 columns, with a temporary directory of its own.
type shown struct {
	t        *testing.T
	cmd      *exec.Cmd
	terminal *os.File
	temp     string
	seen     strings.Builder
	looked   int // up to where until has looked
}

func start(t *testing.T, env ...string) *shown {
	t.Helper()
	// Sockets are in it, whose names may not be long.
	temp, err := os.MkdirTemp("", "d") //nolint:usetesting // a unix socket's path has 108 characters
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &shown{t: t, temp: temp, cmd: exec.CommandContext(ctx, filepath.Join(programs, "demo"), "--keep", "--programs", programs)}
	s.cmd.Dir = root
	s.cmd.Env = append(append(os.Environ(), "TMPDIR="+temp, "TERM=xterm", "NO_COLOR="), env...)
	if s.terminal, err = pty.StartWithSize(s.cmd, &pty.Winsize{Cols: columns, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.terminal.Close() })
	return s
}

// until reads the terminal until it shows something new that the pattern matches.
func (s *shown) until(pattern string) []string {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	for buffer := make([]byte, 4096); ; {
		fresh := colour.ReplaceAllString(s.seen.String(), "")[s.looked:]
		if at := want.FindStringSubmatchIndex(fresh); at != nil {
			s.looked += at[1]
			return want.FindStringSubmatch(fresh)
		}
		n, err := s.terminal.Read(buffer)
		s.seen.Write(buffer[:n])
		if err != nil {
			s.t.Fatalf("waiting for %q: %v; shown:\n%s", pattern, err, s.seen.String())
		}
	}
}

// ends waits for the end, and returns the exit status.
func (s *shown) ends() int {
	s.t.Helper()
	buffer := make([]byte, 4096)
	for {
		n, err := s.terminal.Read(buffer)
		s.seen.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// leavesNothing fails the test if there is anything left in the temporary directory, or a process
// that was told of it.
func (s *shown) leavesNothing() {
	s.t.Helper()
	if left, err := os.ReadDir(s.temp); err != nil || len(left) > 0 {
		s.t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), s.temp+"/") {
			s.t.Errorf("%s runs on: %s", file, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}

// nodeOfThisMachine returns the name of the node that this machine is in the demo.
func nodeOfThisMachine(t *testing.T) string {
	t.Helper()
	name, err := hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTheDemoHealsAgainAndAgainUntilCtrlC(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.until(`3\. A node that does not answer`)
	for _, chapter := range []string{
		`The machine and its BMC\s+are played`, `played-1 +yes +On +https`, `fault +all that runs on played-1 stands still`, `condition +Ready=Unknown`, `waits +for a person`,
		`\$ kubectl nodemend approve played-1\s+approved: step 1`, `claimed +the remote runner`, `off +the BMC, which is played`, `proof +read off twice`, `tainted`,
		`moved +pod db-0 runs on (kwok-|` + regexp.QuoteMeta(nodeOfThisMachine(t)) + `)`, `on +the BMC`, `untainted +boot ID \S+ is a new one`, `recovered`, `\$ kubectl get pod db-0`, `\$ kubectl nodemend describe played-1-`,
	} {
		s.until(chapter)
	}
	pid := 0
	for range 2 {
		match := s.until(breakIt.String())
		var err error
		if pid, err = strconv.Atoi(match[1]); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		s.until(`condition +ContainerRuntimeUnhealthy=True`)
		s.until(`waking the`)
		s.until(`Healed in`)
	}
	// As a person would, in another terminal.
	var script strings.Builder
	for _, match := range exports.FindAllStringSubmatch(colour.ReplaceAllString(s.seen.String(), ""), -1) {
		script.WriteString(match[1] + "\n")
	}
	person := exec.CommandContext(t.Context(), "sh", "-e")
	person.Dir, person.Stdin = root, strings.NewReader(script.String()+"kubectl nodemend status\n")
	person.Env = []string{"HOME=" + t.TempDir(), "PATH=" + linked(t) + ":" + os.Getenv("PATH")}
	if out, err := person.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("Nothing needs you.")) {
		t.Errorf("kubectl nodemend status, as printed: %v: %s", err, out)
	}
	if _, err := s.terminal.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if code := s.ends(); code != 0 || !strings.Contains(s.seen.String(), "Ended.") || strings.Contains(s.seen.String(), "demo:") {
		t.Errorf("Ctrl-C: exit status %d; shown:\n%s", code, s.seen.String())
	}
	if !colour.MatchString(s.seen.String()) {
		t.Error("no colours on a terminal")
	}
	for line := range strings.Lines(colour.ReplaceAllString(s.seen.String(), "")) {
		if line = strings.TrimRight(line, "\r\n"); utf8.RuneCountInString(line) > columns {
			t.Errorf("wider than %d columns: %s", columns, line)
		}
	}
	s.leavesNothing()
}

func TestTheDemoEndsWithItsTerminal(t *testing.T) {
	s := start(t, "NO_COLOR=1")
	s.until(`fault`)
	if colour.MatchString(s.seen.String()) {
		t.Errorf("colours despite NO_COLOR: %q", s.seen.String())
	}
	if err := s.terminal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the terminal was closed: %v", err)
	}
	s.leavesNothing()
}

// What hangs can only be killed, and a machine that is off has nobody to switch it on any more.
func TestTheDemoEndsWhileTheMachineHangsAndWhileItIsOff(t *testing.T) {
	t.Parallel()
	for name, chapter := range map[string]string{"hangs": `stands still`, "off": `proof +read off twice`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.until(chapter)
			if _, err := s.terminal.WriteString("\x03"); err != nil {
				t.Fatal(err)
			}
			if code := s.ends(); code != 0 || !strings.Contains(s.seen.String(), "Ended.") {
				t.Errorf("Ctrl-C: exit status %d; shown:\n%s", code, s.seen.String())
			}
			s.leavesNothing()
		})
	}
}

func TestTheDemoEndsWithItsPager(t *testing.T) {
	temp, err := os.MkdirTemp("", "d") //nolint:usetesting // a unix socket's path has 108 characters
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", filepath.Join(programs, "demo")+" --keep --programs "+programs+" | head -n 3")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "TMPDIR="+temp)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "\x1b") || bytes.Count(out, []byte("\n")) != 3 {
		t.Errorf("in a pipe: %v: %q", err, out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestTheDemoNoticesThatItsControllerHasDied(t *testing.T) {
	s := start(t)
	s.until(`fault`)
	for _, pid := range children(t, s.cmd.Process.Pid, "controller") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if code := s.ends(); code != 1 || !strings.Contains(s.seen.String(), "the controller has ended (signal: killed)") {
		t.Errorf("exit status %d; shown:\n%s", code, s.seen.String())
	}
	s.leavesNothing()
}

// linked returns a directory with the kubectl of the control plane.
func linked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	kubectl, err := filepath.Abs(filepath.Join(root, "bin", "kubebuilder", "kubectl"))
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		kubectl = filepath.Join(assets, "kubectl")
	}
	if err := errors.Join(err, os.Symlink(kubectl, filepath.Join(dir, "kubectl"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// children returns the processes that a process has started with this first argument.
func children(t *testing.T, parent int, argument string) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(data)) {
			line, err := os.ReadFile("/proc/" + field + "/cmdline")
			if err != nil {
				continue // it has just ended
			}
			if args := strings.Split(string(line), "\x00"); len(args) > 1 && args[1] == argument {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, pid)
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("process %d has no child %q", parent, argument)
	}
	return found
}
