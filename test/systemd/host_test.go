//go:build integration

package systemd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	client "github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/systemd"
)

func boot(t *testing.T) *systemd.Host {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := systemd.Boot(ctx)
	if errors.Is(err, systemd.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestASystemdRunsUnitsAndLeavesNothingBehind(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	h := boot(t)
	g.Expect(h.Unit(ctx, "sleeper.service", "[Service]\nExecStart=/bin/sleep 1000\n")).To(Succeed())
	_, err := h.Run(ctx, "systemctl", "start", "sleeper.service")
	g.Expect(err).NotTo(HaveOccurred())

	procs, err := os.ReadFile(filepath.Join(h.Cgroup(), "system.slice", "sleeper.service", "cgroup.procs"))
	g.Expect(err).NotTo(HaveOccurred())
	sleeper, err := strconv.Atoi(strings.TrimSpace(string(procs)))
	g.Expect(err).NotTo(HaveOccurred())

	units, err := h.Run(ctx, "systemctl", "list-units", "--type=service", "--state=active", "--plain", "--no-legend")
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for line := range strings.Lines(string(units)) {
		names = append(names, strings.Fields(line)[0])
	}
	g.Expect(names).To(ConsistOf("dbus.service", "sleeper.service"), "nothing else runs")

	g.Expect(h.Stop()).To(Succeed())
	g.Expect(syscall.Kill(sleeper, 0)).To(MatchError(syscall.ESRCH))
	g.Expect(h.Cgroup()).NotTo(BeADirectory())
	g.Expect(filepath.Dir(h.RunDir())).NotTo(BeADirectory())
	g.Expect(h.Stop()).To(Succeed(), "again")
}

func TestWhatAKilledTestHasLeftIsRemoved(t *testing.T) {
	g := NewWithT(t)
	dead := exec.CommandContext(t.Context(), "true")
	g.Expect(dead.Run()).To(Succeed())
	h := boot(t)
	var left []string
	for _, dir := range []string{h.Cgroup(), filepath.Dir(h.RunDir())} {
		path := filepath.Join(filepath.Dir(dir), fmt.Sprintf("nodemend-systemd-%d-1", dead.Process.Pid))
		g.Expect(os.MkdirAll(filepath.Join(path, "below"), 0o755)).To(Succeed())
		left = append(left, path)
	}
	boot(t)
	g.Expect(left).To(HaveEach(Not(BeAnExistingFile())))
	g.Expect(h.Cgroup()).To(BeADirectory(), "it is in use")
	g.Expect(h.RunDir()).To(BeADirectory(), "it is in use")
}

func TestWhatIsWrittenInsideStaysInside(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	h := boot(t)
	_, err := h.Run(ctx, "touch", "/run/mark", "/var/lib/nodemend-mark", "/tmp/nodemend-mark")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Join(h.RunDir(), "mark")).To(BeARegularFile())
	g.Expect("/var/lib/nodemend-mark").NotTo(BeAnExistingFile())
	g.Expect("/tmp/nodemend-mark").NotTo(BeAnExistingFile())

	_, err = h.Run(ctx, "sh", "-c", "echo 1 >/proc/sys/kernel/panic")
	g.Expect(err).To(MatchError(ContainSubstring("Read-only file system")))
	if _, err := os.Stat("/proc/sysrq-trigger"); err == nil {
		kind, err := h.Run(ctx, "stat", "-c", "%t:%T", "/proc/sysrq-trigger")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(kind)).To(Equal("1:3\n"), "it is /dev/null")
	}
}

func TestAFrozenSystemdAnswersAgainAfterTheTest(t *testing.T) {
	g := NewWithT(t)
	h := boot(t)
	dial := func(ctx context.Context) error {
		conn, err := client.Dialer{Bus: h.Bus()}.Dial(ctx)
		if err == nil {
			conn.Close()
		}
		return err
	}
	t.Run("frozen", func(t *testing.T) {
		h.Freeze(t)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		NewWithT(t).Expect(dial(ctx)).To(MatchError(context.DeadlineExceeded))
	})
	g.Expect(dial(t.Context())).To(Succeed())
}
