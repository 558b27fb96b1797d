//go:build integration

package detector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/loopback"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/stalled"
)

// The disk that the program is on dies, and so does the container runtime: the detector says so,
// whatever happens to the API server and to the way to it meanwhile.
func TestADetectorWhoseDiskHasDiedReportsAProblem(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "dead-disk")
	s.create(t)
	front := clustertest.NewFront(t, clustertest.Shared(t))
	dir := t.TempDir()
	content, mountpoint, config := filepath.Join(dir, "content"), filepath.Join(dir, "disk"), filepath.Join(dir, "detector.yaml")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=agent", "-o", content+"/", "../../cmd/nodemend")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	g.Expect(errors.Join(os.Mkdir(content, 0o700), os.Mkdir(mountpoint, 0o700), os.WriteFile(config, fmt.Appendf(nil, `
heartbeat: {interval: 1s, problemInterval: 1s}
stateFile: ""
socket: ""
checks:
  runtime: {endpoint: %q, interval: 1s, timeout: 2s, failureThreshold: 1, successThreshold: 1, startupGrace: 0s}
  pleg: {enabled: false}
  kubelet: {enabled: false}
  hardware: {enabled: false}
`, s.settings.Checks.Runtime.Endpoint), 0o600))).To(Succeed())
	output, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	disk, err := stalled.Mount(content, mountpoint)
	if errors.Is(err, stalled.ErrUnavailable) {
		t.Skip(err)
	}
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	program, err := os.Open(filepath.Join(mountpoint, "nodemend"))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = program.Close() }() // was only read
	log, err := os.Create(filepath.Join(dir, "detector.log"))
	g.Expect(err).NotTo(HaveOccurred())
	health, metrics := strconv.Itoa(loopback.Port(t)), strconv.Itoa(loopback.Port(t))
	// The shell executes it: as long as that waits for the disk, this program could not serve it.
	cmd := exec.Command("sh", "-c", `exec "$@"`, "sh", program.Name(), "detector", "-v=1", "--config="+config,
		"--kubeconfig="+front.Kubeconfig, "--node-name="+s.name, "--address=127.0.0.1", "--port="+health, "--prometheus-address=127.0.0.1", "--prometheus-port="+metrics)
	cmd.Env = append(os.Environ(), "HTTP2_READ_IDLE_TIMEOUT_SECONDS=1", "HTTP2_PING_TIMEOUT_SECONDS=1") // else 30 and 15
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd, log)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if t.Failed() {
			wanted, err := disk.Wanted(filepath.Join(content, "nodemend"))
			t.Logf("these parts of the program were not in memory: %s (%v)", strings.Join(wanted, "\n"), err)
		}
		// What hangs can't be killed.
		_ = p.Signal(unix.SIGKILL)
		disk.Resume()
		p.Kill()
	})
	logged := func() (string, error) {
		text, err := os.ReadFile(log.Name())
		return string(text), err
	}
	g.Eventually(logged, patience).Should(ContainSubstring("needs its disk no more"))
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionFalse)))

	disk.Stall()
	left, err := stalled.Forget(p.Pid, program)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("of the program %d kB are in memory", left)
	expect := func(status corev1.ConditionStatus, while string) {
		t.Helper()
		g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(status)), "while "+while)
	}
	expect(corev1.ConditionFalse, "nothing else happens")
	front.RenewToken()
	for _, outage := range []struct {
		while string
		begin func()
	}{
		{"nothing else happens", func() {}},
		{"connections are reset", front.Reset},
		{"connections fall silent", front.Mute},
		{"connections are ended in order", front.GoAway},
		{"the API server is away for some time", func() {
			front.Stop()
			s.runtime.Hang()
			g.Eventually(logged, patience).Should(ContainSubstring("connection refused"))
			front.Start()
		}},
		{"writes are refused", func() {
			front.Refuse("PATCH", http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusConflict)
		}},
		{"reads are refused", func() { front.Refuse("GET", http.StatusServiceUnavailable, http.StatusTooManyRequests) }},
		{"events are refused", func() { front.Refuse("POST", http.StatusInternalServerError) }},
	} {
		_, err := stalled.Forget(p.Pid, program)
		g.Expect(err).NotTo(HaveOccurred())
		outage.begin()
		s.runtime.Hang()
		expect(corev1.ConditionTrue, outage.while)
		s.runtime.Resume()
		expect(corev1.ConditionFalse, outage.while)
		for _, page := range []string{health + "/healthz", metrics + "/metrics"} {
			g.Expect(answer(t.Context(), "http://127.0.0.1:"+page)).To(Equal(http.StatusOK), page)
		}
	}
	s.runtime.Stop()
	expect(corev1.ConditionTrue, "the runtime is gone")
	g.Eventually(front.Renewed, patience).Should(BeTrue())
	if wanted, err := disk.Wanted(filepath.Join(content, "nodemend")); err != nil || len(wanted) > 0 {
		t.Errorf("it has gone on by luck: these parts of the program were not in memory: %s (%v)", strings.Join(wanted, "\n"), err)
	}
}

// answer returns the status by which a page is answered.
func answer(ctx context.Context, page string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
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
