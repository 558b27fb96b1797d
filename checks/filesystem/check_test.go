package filesystem

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

const mounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 254:0 /var/x /srv ro,relatime - ext4 /dev/vda rw,discard
30 27 8:1 / /data rw,relatime - ext4 /dev/sda1 ro,errors=remount-ro
31 27 8:1 / /again rw,relatime - ext4 /dev/sda1 ro,errors=remount-ro
32 27 8:2 / /meant ro,relatime - ext4 /dev/sda2 ro
33 27 8:3 / /new\040kernel rw,relatime shared:1 - ext4 /dev/sda3 rw,emergency_ro
34 27 8:4 / /off rw,relatime - ext4 /dev/sda4 rw,shutdown
35 27 8:5 / /var/lib/kubelet/pods/1/volumes/a rw,relatime - xfs /dev/sda5 ro
50 27 8:8 / /var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc/mount rw,relatime shared:9 - ext4 /dev/sdb rw
51 27 8:8 / /home/kubernetes/containerized_mounter/rootfs/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc/mount rw,relatime shared:9 - ext4 /dev/sdb rw
52 27 8:9 / /var/lib/k0s/kubelet/plugins/kubernetes.io/csi/pv/x/globalmount rw,relatime shared:9 - ext4 /dev/sdc ro
36 27 8:6 / /var/lib/kubelet/plugins/b rw,relatime - xfs /dev/sda6 ro
37 27 8:6 / /mnt/b rw,relatime - xfs /dev/sda6 ro
38 27 0:40 /@ /var/lib/b rw,relatime - btrfs /dev/mapper/vg-b rw,subvol=/@
39 27 0:41 / /nfs rw,relatime - nfs4 server:/ ro
40 27 8:7 / /var/lib/kubelet/podsmore rw - xfs /dev/sda7 rw
`

func TestWhatTheKernelMadeReadOnlyIsToldFromWhatPeopleMountedReadOnly(t *testing.T) {
	got, err := parseMounts(strings.NewReader(mounts), []string{"/var/lib/kubelet/pods", "/var/lib/kubelet/plugins"})
	if err != nil {
		t.Fatal(err)
	}
	want := []fileSystem{
		{device: device{254, 0}, kind: "ext4", disk: "vda", points: []string{"/"}},
		{device: device{8, 1}, kind: "ext4", disk: "sda1", points: []string{"/data", "/again"}, readOnly: true},
		{device: device{8, 2}, kind: "ext4", disk: "sda2", points: []string{"/meant"}, toBeRead: true},
		{device: device{8, 3}, kind: "ext4", disk: "sda3", points: []string{"/new kernel"}, readOnly: true, refuses: true},
		{device: device{8, 4}, kind: "ext4", disk: "sda4", points: []string{"/off"}, shutdown: true},
		{device: device{8, 6}, kind: "xfs", disk: "sda6", points: []string{"/mnt/b"}, readOnly: true},
		{device: device{0, 40}, kind: "btrfs", disk: "vg-b", points: []string{"/var/lib/b"}},
		{device: device{8, 7}, kind: "xfs", disk: "sda7", points: []string{"/var/lib/kubelet/podsmore"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(fileSystem{}, device{}, ext4Errors{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// host is one whose /proc and /sys are played, with a real folder /data.
type host struct {
	t    *testing.T
	path string
}

func newHost(t *testing.T, mountinfo string) host {
	t.Helper()
	h := host{t, t.TempDir()}
	h.write("1/mountinfo", mountinfo)
	for _, folder := range []string{"1/root/data", "sys/dev/block"} {
		if err := os.MkdirAll(filepath.Join(h.path, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) check(write ...string) *Check {
	return New(Options{
		Write: write, MaxWait: 2 * time.Minute, MinAvailable: 1, Timeout: 20 * time.Second,
		Process: filepath.Join(h.path, "1"), Sys: filepath.Join(h.path, "sys"), Clock: clock.RealClock{},
	})
}

func TestTheErrorsThatExt4HasCountedAreAProblem(t *testing.T) {
	h := newHost(t, "30 27 8:1 / /nowhere rw,relatime - ext4 /dev/root rw\n")
	if err := os.Symlink("../../devices/pci/block/sda/sda1", filepath.Join(h.path, "sys", "dev", "block", "8:1")); err != nil {
		t.Fatal(err)
	}
	h.write("sys/fs/ext4/sda1/errors_count", "2\n")
	h.write("sys/fs/ext4/sda1/last_error_time", "1767323045\n")
	h.write("sys/fs/ext4/sda1/last_error_func", "ext4_find_entry\n")
	want := checks.Problem(ReasonErrors, "/nowhere (ext4 on sda1): ext4 has counted 2 error(s), the last in ext4_find_entry at 2026-01-02T03:04:05Z: unmount it and run e2fsck, which counts anew")
	if got := h.check().Run(t.Context()); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	h.write("sys/fs/ext4/sda1/errors_count", "0\n")
	if got := h.check().Run(t.Context()); got.Status != checks.False {
		t.Errorf("after e2fsck: %+v", got)
	}
}

// Where the kernel itself does it, it has counted an error before.
func TestWhatPeopleHaveRemountedReadOnlyIsNoFault(t *testing.T) {
	h := newHost(t, "30 27 8:1 / /nowhere rw,relatime - ext4 /dev/sda1 ro\n")
	if got := h.check().Run(t.Context()); got.Reason != ReasonReadOnly {
		t.Errorf("nobody counts: got %+v", got)
	}
	if err := os.Symlink("../../devices/pci/block/sda/sda1", filepath.Join(h.path, "sys", "dev", "block", "8:1")); err != nil {
		t.Fatal(err)
	}
	for count, want := range map[string]string{"0\n": ReasonHealthy, "1\n": ReasonReadOnly} {
		h.write("sys/fs/ext4/sda1/errors_count", count)
		if got := h.check().Run(t.Context()); got.Reason != want {
			t.Errorf("%q errors: got %+v, want %s", count, got, want)
		}
	}
}

func TestAHostThatIsNotSeenIsUnknown(t *testing.T) {
	h := newHost(t, "no mountinfo at all\n")
	if got := h.check().Run(t.Context()); got.Status != checks.Unknown || got.Reason != ReasonNotSeen {
		t.Errorf("got %+v", got)
	}
	if err := os.Remove(filepath.Join(h.path, "1", "mountinfo")); err != nil {
		t.Fatal(err)
	}
	if got := h.check().Run(t.Context()); got.Status != checks.Unknown || got.Reason != ReasonNotSeen {
		t.Errorf("got %+v", got)
	}
}

func TestAFolderThatIsNotThereIsLeftOut(t *testing.T) {
	got := newHost(t, "30 27 8:1 / /nowhere rw - ext4 /dev/sda1 rw\n").check("/missing").Run(t.Context())
	if want := checks.Healthy(ReasonHealthy, "1 file systems answer; none can be written in /missing"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := newHost(t, "").check("/missing").Run(t.Context()); got.Status != checks.Unknown {
		t.Errorf("where nothing is looked at: got %+v", got)
	}
}

func TestALinkOfTheHostLeadsToAFolderOfTheHost(t *testing.T) {
	h := newHost(t, "")
	if err := os.Symlink("/data", filepath.Join(h.path, "1", "root", "link")); err != nil {
		t.Fatal(err)
	}
	want := checks.Healthy(ReasonHealthy, "0 file systems answer; a block was written in /link")
	if got := h.check("/link").Run(t.Context()); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What hangs must neither be waited for without an end nor be asked once more.
func TestAFileSystemThatHangsIsAskedOnceAndIsAProblemAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHost(t, "").check("/data")
		var asked atomic.Int32
		answer := make(chan found)
		hang := func() { c.look("/data", func() found { asked.Add(1); return <-answer }) }
		hang()
		for range 2 {
			hang()
			if got := c.Run(t.Context()); got.Status != checks.Unknown || got.Reason != ReasonSlow {
				t.Errorf("before MaxWait: %+v", got)
			}
		}
		time.Sleep(2 * time.Minute)
		want := checks.Problem(ReasonHung, "/data: a block is not written for 2m54s")
		if got := c.Run(t.Context()); got != want {
			t.Errorf("after MaxWait: %+v, want %+v", got, want)
		}
		if got := asked.Load(); got != 1 {
			t.Errorf("it was asked %d times", got)
		}
		answer <- found{}
		synctest.Wait()
		if got := c.Run(t.Context()); got.Status != checks.False || !strings.Contains(got.Message, "a block was written in /data") {
			t.Errorf("when it answers again: %+v", got)
		}
	})
}

func TestARunThatIsStoppedSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := newHost(t, "").check().Run(ctx); got.Reason != ReasonInterrupted {
		t.Errorf("got %+v", got)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add(mounts)
	f.Add("1 1 8:1 / / rw - ext4 /dev/sda1 ro\n")
	f.Fuzz(func(t *testing.T, text string) {
		systems, err := parseMounts(strings.NewReader(text), []string{"/a"})
		if err != nil {
			return
		}
		for _, s := range systems {
			if len(s.points) == 0 || s.String() == "" {
				t.Errorf("without a mount point: %+v", s)
			}
		}
	})
}

// A panic of a goroutine that nobody guards ends the whole detector.
func TestAPanicOfALookIsOneOfTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHost(t, "").check("/data")
		c.look("/data", func() found {
			time.Sleep(time.Second)
			panic("no such mode") //nolint:forbidigo // as a library does
		})
		if got := checks.Guarded(t.Context(), Kind(), c); got.Status != checks.Unknown || got.Reason != checks.ReasonCheckPanicked {
			t.Errorf("got %+v", got)
		}
		if got := checks.Guarded(t.Context(), Kind(), c); got.Status != checks.False {
			t.Errorf("at the next look: got %+v", got)
		}
	})
}
