//go:build integration

package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/loopback"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/stalled"
)

// onOwnSysRq executes a program where the pipe $0 has the place of the kernel's SysRq,
// which not every kernel has, and executes nothing where it has not.
const onOwnSysRq = `
set -e
mkdir "$0.proc"
mount --rbind /proc "$0.proc"
mount -t tmpfs tmpfs /proc
for file in "$0.proc"/[a-z]*; do ln -s "$file" /proc; done
ln -sf "$0" /proc/sysrq-trigger
[ -p /proc/sysrq-trigger ]
exec "$@"
`

// The disk that the program is on dies: it still reboots the node, whatever happens to the API server
// and to the way to it meanwhile.
func TestARunnerWhoseDiskHasDiedRebootsTheNode(t *testing.T) {
	f := newFixture(t)
	front := clustertest.NewFront(t, f.cluster)
	content, mountpoint := filepath.Join(f.dir, "content"), filepath.Join(f.dir, "disk")
	f.must(errors.Join(os.Mkdir(content, 0o700), os.Mkdir(mountpoint, 0o700), os.Mkdir(filepath.Join(content, "root"), 0o755)))
	buildAgent(f, filepath.Join(content, "nodemend-agent"))
	disk, err := stalled.Mount(content, mountpoint)
	if errors.Is(err, stalled.ErrUnavailable) {
		t.Skip(err)
	}
	f.must(err)
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	program, err := os.Open(filepath.Join(mountpoint, "nodemend-agent"))
	f.must(err)
	defer func() { _ = program.Close() }() // was only read
	kernel := newSysRq(f, filepath.Join(f.dir, "sysrq-trigger"))
	metrics := loopback.Address(t)
	p := startAgent(f, program.Name(), front.Kubeconfig, metrics, kernel)
	t.Cleanup(func() {
		if t.Failed() {
			wanted, err := disk.Wanted(filepath.Join(content, "nodemend-agent"))
			t.Logf("these parts of the program were not in memory: %s (%v)", strings.Join(wanted, "\n"), err)
		}
		// What hangs can't be killed.
		_ = p.Signal(unix.SIGKILL)
		disk.Resume()
	})

	disk.Stall()
	left, err := stalled.Forget(p.Pid, program)
	f.must(err)
	t.Logf("of the program %d kB are in memory", left)
	for _, happens := range []func(){
		front.Reset,
		front.Mute,
		func() {
			front.Stop()
			front.Start()
		},
		func() {
			front.Refuse("WATCH", http.StatusGone, http.StatusTooManyRequests, http.StatusInternalServerError)
			front.Reset()
		},
		func() {
			front.GoAway()
			front.Reset()
		},
	} {
		_, err := stalled.Forget(p.Pid, program)
		f.must(err)
		taken := front.Taken("WATCH")
		happens()
		f.must(waitFor(f, func() bool { return front.Taken("WATCH") > taken }))
		if status, err := answer(f.ctx, metrics+"/metrics"); err != nil || status != http.StatusOK {
			t.Errorf("its metrics: %d, %v", status, err)
		}
	}
	front.Refuse("GET", http.StatusServiceUnavailable, http.StatusTooManyRequests)
	front.Refuse("PUT", http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusConflict)
	front.Refuse("POST", http.StatusInternalServerError)
	f.rebootBySysRq()
	f.newAction(0)
	for _, want := range []string{"s", "u", "b"} {
		if got := kernel.next(); got != want {
			f.Fatalf("%q was written to the kernel's SysRq, want %q; %s", got, want, threads(p.Pid))
		}
		_, err := stalled.Forget(p.Pid, program)
		f.must(err)
	}
	if wanted, err := disk.Wanted(filepath.Join(content, "nodemend-agent")); err != nil || len(wanted) > 0 {
		t.Errorf("it has gone on by luck: these parts of the program were not in memory: %s (%v)", strings.Join(wanted, "\n"), err)
	}
}

// buildAgent builds the program as it is built for nodes.
func buildAgent(f *fixture, path string) {
	f.Helper()
	build := exec.CommandContext(f.ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=agent", "-o", path, "../cmd/nodemend")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		f.Fatalf("building the program: %v: %s", err, output)
	}
}

// startAgent starts the program as the fixture's runner, and waits until it is ready.
func startAgent(f *fixture, program, kubeconfig, metrics string, kernel sysRq) *process.Process {
	f.Helper()
	proc, err := process.OwnProc(f.dir)
	f.must(err)
	log, err := os.Create(filepath.Join(f.dir, "runner.log"))
	f.must(err)
	health := freeAddress(f)
	cmd := exec.Command("unshare", "--mount", "--propagation=private", "sh", "-c", onOwnSysRq, kernel.Name(),
		program, "runner", "--node-name="+f.node.Name, "--kubeconfig="+kubeconfig, "--health-address="+health, "--metrics-address="+metrics, "--execution=Direct",
		"--host-proc="+proc, "--run-dir="+filepath.Join(f.dir, "run"), "--host-root="+filepath.Join(filepath.Dir(program), "root"))
	cmd.Env = append(os.Environ(), "HTTP2_READ_IDLE_TIMEOUT_SECONDS=1", "HTTP2_PING_TIMEOUT_SECONDS=1") // else 30 and 15
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd, log)
	f.must(err)
	f.Cleanup(p.Kill)
	err = wait.PollUntilContextCancel(f.ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if p.HasExited() {
			return false, errors.New("it has exited")
		}
		status, err := answer(ctx, health+"/readyz")
		return err == nil && status == http.StatusOK, nil // not yet
	})
	if err != nil {
		f.Fatalf("the runner is not ready: %v; its log: %s", err, f.read(log.Name()))
	}
	return p
}

// answer returns the status by which a page is answered.
func answer(ctx context.Context, page string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+page, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

// threads says which threads of a process hang, and where.
func threads(pid int) string {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	var text strings.Builder
	for _, stat := range stats {
		line, _ := os.ReadFile(stat)
		stack, _ := os.ReadFile(filepath.Join(filepath.Dir(stat), "stack"))
		fmt.Fprintf(&text, "%.40s\n%s", line, stack)
	}
	return text.String()
}
