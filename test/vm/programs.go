package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ErrUnavailable is wrapped by Start's error where no machine can be started, for lack
// of rights or programs. The text says what is missing.
var ErrUnavailable = errors.New("no virtual machine can be started here")

// obstacle returns why no machine can be started here.
func obstacle() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it needs root, as the files of its disk belong to root", ErrUnavailable)
	}
	for _, need := range []struct{ program, pkg string }{
		{"apt-get", "apt"},
		{"dpkg-deb", "dpkg"},
		{program, "qemu-system-x86"},
		{systemd, "systemd"},
		{"dbus-daemon", "dbus"},
		{"ipmitool", "ipmitool"},
		{"busybox", "busybox-static"},
		{"mkfs.ext4", "e2fsprogs"},
		{"xz", "xz-utils"},
	} {
		if _, err := exec.LookPath(need.program); err != nil {
			return fmt.Errorf("%w: it needs %s: apt-get install %s", ErrUnavailable, need.program, need.pkg)
		}
	}
	return nil
}
