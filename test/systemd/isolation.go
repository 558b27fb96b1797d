package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/nodemend/nodemend/test/process"
)

// isolation becomes PID 1 of a node: it is run in fresh namespaces and in a fresh
// control group. Its argument is a directory with an empty directory "root", and
// "run", which becomes /run.
//
// No unit but those that the node's target asks for is started, and since there is
// a machine ID, none is enabled either.
const isolation = `
root=$0/root
mount --make-rprivate /
mount -n -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/node"
mount -n -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/node"
node=$root/node
mkdir -p "$node/proc" "$node/sys" "$node/dev" "$node/run" "$node/tmp" "$node/.outside"
mount -n -t proc proc "$node/proc"
mount -n --bind "$node/proc/sys" "$node/proc/sys"
mount -n -o remount,bind,ro "$node/proc/sys"
if [ -e "$node/proc/sysrq-trigger" ]; then mount -n --bind /dev/null "$node/proc/sysrq-trigger"; fi
mount -n -t sysfs -o ro sysfs "$node/sys"
mount -n -t cgroup2 cgroup2 "$node/sys/fs/cgroup"
mount -n -t tmpfs -o mode=755 tmpfs "$node/dev"
for device in null zero full random urandom tty; do
	: >"$node/dev/$device"
	mount -n --bind "/dev/$device" "$node/dev/$device"
done
mount -n --bind "$0/run" "$node/run"
mount -n -t tmpfs tmpfs "$node/tmp"
tr -d - </proc/sys/kernel/random/uuid >"$node/etc/machine-id"
rm -rf "$node"/etc/systemd/system/* "$node"/lib/systemd/system/*.wants "$node"/lib/systemd/system-generators
cd "$node"
pivot_root . .outside
umount -n -l .outside
exec env -i container=test PATH="$PATH" /lib/systemd/systemd --system --unit=node.target
`

// programs are what a boot needs, besides a shell and coreutils.
var programs = []string{
	"/lib/systemd/systemd", "/usr/bin/dbus-daemon", "systemctl", "unshare", "nsenter", "pivot_root", "mount",
}

// obstacle returns why no systemd can be booted here, or nil if none is known.
func obstacle() error {
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: it needs root", ErrUnavailable)
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: install the packages systemd, dbus and util-linux: %w", ErrUnavailable, err)
		}
	}
	return nil
}

// startNode starts PID 1 in the control group that is open as cgroup. What it says
// before it is systemd goes to log.
func startNode(dir string, cgroup, log *os.File) (*process.Process, error) {
	cmd := &exec.Cmd{
		// The namespace of control groups has to be made inside the new one.
		Path: "/bin/sh", Args: []string{"/bin/sh", "-ec", `exec unshare --cgroup /bin/sh -ec "$1" "$0"`, dir, isolation},
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true,
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS |
				syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
			UseCgroupFD: true, CgroupFD: int(cgroup.Fd()),
		},
	}
	p, err := process.Start(cmd, log)
	if errors.Is(err, syscall.EPERM) {
		return nil, fmt.Errorf("%w: no new namespaces are permitted: %w", ErrUnavailable, err)
	}
	return p, err
}

// cgroupMount returns where control groups of version 2 are mounted: not the same
// where those of version 1 are in use as well.
func cgroupMount() (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer func() { _ = mounts.Close() }() // was only read
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		mount, filesystem, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); len(fields) > 4 && strings.HasPrefix(filesystem, "cgroup2 ") {
			return fields[4], nil
		}
	}
	return "", errors.Join(fmt.Errorf("%w: control groups of version 2 are not mounted", ErrUnavailable), lines.Err())
}
