//go:build integration

package filesystem_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/checks/filesystem"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/test/faultydisk"
	"github.com/nodemend/nodemend/test/loopback"
)

// patience bounds every wait: only what hangs needs it.
const patience = 2 * time.Minute

// scene is a disk with a file system, and a detector that checks it.
type scene struct {
	*testing.T
	disk     *faultydisk.Disk
	kind     string
	point    string // where it is mounted
	settings config.Config
	stop     func()
	address  string
}

func newScene(t *testing.T, kind string) *scene {
	t.Helper()
	dir := t.TempDir()
	s := &scene{T: t, kind: kind, point: filepath.Join(dir, "data"), stop: func() {}}
	for _, folder := range []string{s.point, filepath.Join(dir, "disk")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	size := 40 << 20
	if kind == "xfs" {
		size = 320 << 20 // mkfs.xfs makes none below 300 MB
		if _, err := exec.LookPath("mkfs.xfs"); err != nil {
			t.Skip("install xfsprogs: ", err)
		}
	}
	disk, err := faultydisk.New(t.Context(), filepath.Join(dir, "disk"), size)
	if errors.Is(err, faultydisk.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.disk = disk
	t.Cleanup(func() {
		s.stop()
		if err := disk.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.command("mkfs."+kind, "-q", disk.Device)
	s.settings = config.Default()
	s.settings.StateFile, s.settings.Socket = filepath.Join(dir, "state.json"), ""
	s.settings.Checks.Only = []string{"filesystem"}
	f := &s.settings.Checks.Filesystem
	f.Interval.Duration, f.Timeout.Duration, f.MaxWait.Duration, f.StartupGrace.Duration = time.Second, time.Second, 3*time.Second, 0
	f.Write = []string{s.point}
	f.Ignore = s.others()
	s.mount()
	t.Cleanup(s.unmount)
	return s
}

// others are where all else is mounted, of which this machine may have any.
func (s *scene) others() (points []string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if point := strings.Fields(line)[4]; point != "/" {
			points = append(points, point)
		}
	}
	return points
}

func (s *scene) command(name string, args ...string) {
	s.Helper()
	if out, err := exec.CommandContext(s.Context(), name, args...).CombinedOutput(); err != nil {
		s.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (s *scene) mount() {
	s.Helper()
	options := "rw"
	if s.kind == "ext4" {
		options = "errors=remount-ro"
	}
	s.command("mount", "-t", s.kind, "-o", options, s.disk.Device, s.point)
}

// unmount waits until the check has closed what it has open for a moment.
func (s *scene) unmount() {
	s.Helper()
	NewWithT(s).Eventually(func() error { return unix.Unmount(s.point, 0) }, patience).Should(Succeed())
}

// start starts the detector, anew if it runs.
func (s *scene) start() {
	s.Helper()
	s.stop()
	s.address = loopback.Address(s.T)
	ctx, cancel := context.WithCancel(klog.NewContext(s.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() {
		ended <- detector.Run(ctx, detector.Options{NodeName: "n", Config: s.settings, WithoutAPIServer: true, HealthAddress: s.address})
	}()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
		s.stop = func() {}
	}
}

// condition is what the detector says. None of what it says before a run is there.
func (s *scene) condition() (corev1.NodeCondition, error) {
	response, err := http.Get("http://" + s.address + "/conditions")
	if err != nil {
		return corev1.NodeCondition{}, err
	}
	defer func() { _ = response.Body.Close() }()
	var all []corev1.NodeCondition
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil || len(all) == 0 {
		return corev1.NodeCondition{}, err
	}
	return all[0], nil
}

// says waits until the detector says this.
func (s *scene) says(status corev1.ConditionStatus, reason string, words ...string) corev1.NodeCondition {
	s.Helper()
	return s.saysOneOf(status, []string{reason}, words...)
}

// saysOneOf is says where the kernel decides which of these reasons is the true one.
func (s *scene) saysOneOf(status corev1.ConditionStatus, reasons []string, words ...string) corev1.NodeCondition {
	s.Helper()
	var c corev1.NodeCondition
	NewWithT(s).Eventually(func() (corev1.NodeCondition, error) {
		var err error
		c, err = s.condition()
		return c, err
	}, patience).Should(Satisfy(func(c corev1.NodeCondition) bool { return c.Status == status && slices.Contains(reasons, c.Reason) }), strings.Join(reasons, " or "))
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			s.Errorf("the message does not have %q: %s", word, c.Message)
		}
	}
	s.Logf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	return c
}

// fault is seen, holds through a restart of the detector, and is over after the repair.
func (s *scene) fault(reason string, words []string, repair func()) {
	s.Helper()
	before := s.says(corev1.ConditionTrue, reason, words...)
	s.start()
	after := s.says(corev1.ConditionTrue, reason, words...)
	if !after.LastTransitionTime.Equal(&before.LastTransitionTime) {
		s.Errorf("the restart moved lastTransitionTime from %s to %s", before.LastTransitionTime, after.LastTransitionTime)
	}
	repair()
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy, "a block was written in "+s.point)
}

func (s *scene) disksName() string { return filepath.Base(s.disk.Device) }

// write writes to a file that is not there if nothing is wrong.
func (s *scene) write(path, text string) {
	s.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func TestTheFaultsOfARealExt4AreSeenHoldAndClear(t *testing.T) {
	if !faultydisk.Alone(t) {
		return
	}
	s := newScene(t, "ext4")
	s.start()
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy, "a block was written in "+s.point)
	named := s.point + " (ext4 on " + s.disksName() + "): "

	t.Log("ext4 finds an error and lets nobody write any more")
	s.write("/sys/fs/ext4/"+s.disksName()+"/trigger_fs_error", "by a test")
	// It may count another one, of what was being written.
	s.fault(filesystem.ReasonReadOnly, []string{named + "the kernel lets nobody write any more; ext4 has counted ", " error(s), the last in "}, func() {
		s.unmount()
		s.mount()
		s.says(corev1.ConditionTrue, filesystem.ReasonErrors, named+"ext4 has counted ", "e2fsck")
		s.unmount()
		_ = exec.CommandContext(t.Context(), "e2fsck", "-fy", s.disk.Device).Run() // 1: it has mended something
		s.mount()
	})

	t.Log("the disk answers with errors")
	s.disk.Break()
	// If the journal is written before the check's block, the kernel lets nobody write any more.
	broken := s.saysOneOf(corev1.ConditionTrue, []string{filesystem.ReasonWriteFailed, filesystem.ReasonReadOnly}, s.point+": ")
	if broken.Reason == filesystem.ReasonWriteFailed && !strings.Contains(broken.Message, s.point+": a block could not be written: ") {
		t.Errorf("the message does not say what could not be written: %s", broken.Message)
	}
	s.disk.Mend()
	s.unmount()
	_ = exec.CommandContext(t.Context(), "e2fsck", "-fy", s.disk.Device).Run() // as above
	s.mount()
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy)

	t.Log("the disk does not answer")
	s.disk.Hang()
	s.says(corev1.ConditionTrue, filesystem.ReasonHung, s.point+": a block is not written for ")
	s.disk.Mend()
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy)

	t.Log("the file system is frozen")
	s.command("fsfreeze", "--freeze", s.point)
	s.says(corev1.ConditionTrue, filesystem.ReasonHung, s.point+": a block is not written for ")
	s.command("fsfreeze", "--unfreeze", s.point)
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy)

	t.Log("it is full")
	big := filepath.Join(s.point, "big")
	_ = exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+big, "bs=64k").Run() // ends when it is full
	s.fault(filesystem.ReasonFull, []string{named}, func() {
		if err := os.Remove(big); err != nil {
			t.Error(err)
		}
	})

	t.Log("it was shut down")
	folder, err := os.Open(s.point)
	if err != nil {
		t.Fatal(err)
	}
	const shutdown, logFlush = 0x8004587d, 1 // EXT4_IOC_SHUTDOWN
	if err := unix.IoctlSetPointerInt(int(folder.Fd()), shutdown, logFlush); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	s.fault(filesystem.ReasonFailed, []string{named + "it was shut down"}, func() {
		s.unmount()
		s.mount()
	})
}

func TestAnXFSThatWasShutDownIsSeen(t *testing.T) {
	if !faultydisk.Alone(t) {
		return
	}
	s := newScene(t, "xfs")
	s.settings.Checks.Filesystem.Write = []string{} // it is seen without
	s.start()
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy)
	s.command("xfs_io", "-x", "-c", "shutdown", s.point)
	s.says(corev1.ConditionTrue, filesystem.ReasonFailed, s.point+" (xfs on "+s.disksName()+"): ", "input/output error")
	s.start()
	s.says(corev1.ConditionTrue, filesystem.ReasonFailed)
	s.unmount()
	s.mount()
	s.says(corev1.ConditionFalse, filesystem.ReasonHealthy)
}
