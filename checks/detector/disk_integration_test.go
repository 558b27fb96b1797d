//go:build integration

package detector_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/stalled"
)

// The disk that the program is on dies, and so does the container runtime: the detector says so.
func TestADetectorWhoseDiskHasDiedReportsAProblem(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "dead-disk")
	s.create(t)
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
	// The shell executes it: as long as that waits for the disk, this program could not serve it.
	cmd := exec.Command("sh", "-c", `exec "$@"`, "sh", program.Name(), "detector", "-v=1", "--config="+config,
		"--kubeconfig="+clustertest.Shared(t).Kubeconfig, "--node-name="+s.name, "--address=127.0.0.1", "--port=0", "--prometheus-port=0")
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
	s.runtime.Hang()
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionTrue)))
	_, err = stalled.Forget(p.Pid, program)
	g.Expect(err).NotTo(HaveOccurred())
	s.runtime.Resume()
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionFalse)))
	s.runtime.Stop()
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionTrue)))
	if wanted, err := disk.Wanted(filepath.Join(content, "nodemend")); err != nil || len(wanted) > 0 {
		t.Errorf("it has gone on by luck: these parts of the program were not in memory: %s (%v)", strings.Join(wanted, "\n"), err)
	}
}
