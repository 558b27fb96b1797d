//go:build integration

package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/tasks"
	"github.com/nodemend/nodemend/test/faultydisk"
)

// patience bounds every wait. The load takes a minute to show a task that waits.
const patience = 5 * time.Minute

func TestAProgramThatWaitsForARealDiskIsBlockedUntilTheDiskAnswers(t *testing.T) {
	if !faultydisk.Alone(t) {
		return
	}
	g := NewWithT(t)
	dir := t.TempDir()
	point := filepath.Join(dir, "data")
	for _, folder := range []string{point, filepath.Join(dir, "disk")} {
		g.Expect(os.Mkdir(folder, 0o700)).To(Succeed())
	}
	disk, err := faultydisk.New(t.Context(), filepath.Join(dir, "disk"), 40<<20)
	if errors.Is(err, faultydisk.ErrUnavailable) {
		t.Skip(err)
	}
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(disk.Close(context.WithoutCancel(t.Context()))).To(Succeed()) }()
	g.Expect(exec.CommandContext(t.Context(), "mkfs.ext4", "-q", disk.Device).Run()).To(Succeed())
	g.Expect(unix.Mount(disk.Device, point, "ext4", 0, "")).To(Succeed())
	defer func() { g.Eventually(func() error { return unix.Unmount(point, 0) }, patience).Should(Succeed()) }()

	disk.Hang()
	defer disk.Mend()
	dd := exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+filepath.Join(point, "file"), "bs=4k", "count=1", "conv=fsync")
	g.Expect(dd.Start()).To(Succeed())
	named := fmt.Sprintf("dd (process %d) has waited in ", dd.Process.Pid)

	start := func() *tasks.Check {
		return tasks.New(tasks.Options{
			MaxBlocked: 2 * time.Second, Timeout: time.Minute, StateFile: filepath.Join(dir, "tasks.json"), BootID: "this", Clock: clock.RealClock{},
		})
	}
	c := start()
	var got checks.Result
	g.Eventually(func() string {
		got = c.Run(t.Context())
		return got.Message
	}, patience, 500*time.Millisecond).Should(SatisfyAll(ContainSubstring(named), Satisfy(func(string) bool { return got.Status == checks.True })))
	t.Logf("%s %s: %s", got.Status, got.Reason, got.Message)
	c = start()
	got = c.Run(t.Context())
	g.Expect(got).To(SatisfyAll(HaveField("Status", checks.True), HaveField("Message", ContainSubstring(named))), "right after a restart")
	t.Logf("after a restart: %s %s: %s", got.Status, got.Reason, got.Message)
	disk.Mend()
	g.Expect(dd.Wait()).To(Succeed())
	g.Eventually(func() bool { return strings.Contains(c.Run(t.Context()).Message, named) }, patience).Should(BeFalse())
}
