package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/nodemend/nodemend/test/process"
)

// enter joins the control groups whose lists of processes the arguments after the
// second name, and goes on with the second in a namespace of these groups: that has to
// be made when it is in them.
const enter = `
script=$1
shift
for list; do echo 0 >"$list"; done
exec unshare --cgroup /bin/sh -ec "$script" "$0"
`

// isolation becomes PID 1 of a node: it is run in fresh namespaces and in fresh control
// groups. Its argument is the node's directory. The verbs are for the address of
// the API server, that of the node, and the mounts of control groups.
//
// The kubelet sets kernel parameters: it gets copies of them. Those of the network are
// the node's own.
const isolation = `
root=$0/root
ip link set lo up
ip address add %[1]s/32 dev lo
ip address add %[2]s/32 dev lo
echo 1 >/proc/sys/net/ipv4/ip_forward
mount --make-rprivate /
mount -n -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/node" "$root/sysctl"
mount -n -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/node"
node=$root/node
mkdir -p "$node/proc" "$node/sys" "$node/dev" "$node/run" "$node/tmp" "$node/.outside"
rm -rf "$node"/etc/systemd/system/* "$node"/lib/systemd/system/*.wants "$node"/lib/systemd/system-generators \
	"$node"/etc/cni "$node"/etc/kubernetes "$node"/etc/containerd "$node"/var/lib/cni "$node"/var/lib/nodemend "$node"/etc/nodemend \
	"$node"/var/lib/containerd "$node"/var/lib/kubelet "$node"/var/log
mkdir -p "$node/var/lib/containerd" "$node/var/lib/kubelet" "$node/var/log"
cp -R "$0/files/." "$node/"
mount -n -t proc -o nosuid,nodev,noexec proc "$node/proc"
mount -n --bind "$node/proc/sys" "$node/proc/sys"
mount -n -o remount,bind,ro "$node/proc/sys"
mount -n --bind "$node/proc/sys/net" "$node/proc/sys/net"
mount -n -o remount,bind,rw "$node/proc/sys/net"
for parameter in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	copy=$root/sysctl/$(basename $parameter)
	cat /proc/sys/$parameter >"$copy"
	mount -n --bind "$copy" "$node/proc/sys/$parameter"
done
if [ -e "$node/proc/sysrq-trigger" ]; then mount -n --bind "$0/sysrq" "$node/proc/sysrq-trigger"; fi
mount -n -t sysfs -o ro sysfs "$node/sys"
%[3]s
mount -n -t tmpfs -o mode=755 tmpfs "$node/dev"
for device in null zero full random urandom tty kmsg; do
	: >"$node/dev/$device"
	mount -n --bind "/dev/$device" "$node/dev/$device"
done
mkdir "$node/dev/pts" "$node/dev/shm" "$node/dev/mqueue"
mount -n -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$node/dev/pts"
mount -n -t tmpfs -o mode=1777 tmpfs "$node/dev/shm"
mount -n -t mqueue mqueue "$node/dev/mqueue"
ln -s pts/ptmx "$node/dev/ptmx"
ln -s /proc/self/fd "$node/dev/fd"
for i in 0/stdin 1/stdout 2/stderr; do ln -s "/proc/self/fd/${i%%/*}" "$node/dev/${i#*/}"; done
mount -n --bind "$0/run" "$node/run"
mount -n --bind "$0/containerd" "$node/var/lib/containerd"
mount -n --bind "$0/kubelet" "$node/var/lib/kubelet"
mount -n --bind "$0/log" "$node/var/log"
mount -n -t tmpfs tmpfs "$node/tmp"
: >"$node/usr/local/bin/kubelet"
mount -n --bind "$0/kubelet-program" "$node/usr/local/bin/kubelet"
tr -d - </proc/sys/kernel/random/uuid >"$node/etc/machine-id"
hostname "$(cat "$0/files/etc/hostname")"
cd "$node"
pivot_root . .outside
umount -n -l .outside
mount --make-rshared /
exec env -i container=test PATH="$PATH" /lib/systemd/systemd --system --unit=node.target
`

// environment is that of all that is started inside.
const environment = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// needs are the programs and files that a node is made of, by Debian package, besides
// a shell and coreutils.
var needs = []struct{ file, pkg string }{
	{"/lib/systemd/systemd", "systemd"},
	{"systemctl", "systemd"},
	{"/usr/bin/dbus-daemon", "dbus"},
	{"containerd", "containerd"},
	{"/lib/systemd/system/containerd.service", "containerd"},
	{"runc", "runc"},
	{cniDir + "/ptp", "containernetworking-plugins"},
	{busybox, "busybox-static"},
	{"ip", "iproute2"},
	{"hostname", "hostname"},
	{"unshare", "util-linux"},
	{"nsenter", "util-linux"},
	{"pivot_root", "util-linux"},
	{"mount", "mount"},
}

// obstacle returns why no node can run here, or nil if nothing is known.
func obstacle() error {
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: it needs root", ErrUnavailable)
	}
	for _, need := range needs {
		_, err := exec.LookPath(need.file)
		if filepath.IsAbs(need.file) {
			_, err = os.Stat(need.file)
		}
		if err != nil {
			return fmt.Errorf("%w: apt-get install %s: %w", ErrUnavailable, need.pkg, err)
		}
	}
	return nil
}

// startInit starts PID 1 in the control groups. What it says before it is systemd goes
// to log.
func startInit(dir string, groups []group, log *os.File) (*process.Process, error) {
	args := []string{"/bin/sh", "-ec", enter, dir, fmt.Sprintf(isolation, apiServerIP, nodeIP, mountScript(groups))}
	for _, g := range groups {
		args = append(args, filepath.Join(g.dir, "cgroup.procs"))
	}
	cmd := &exec.Cmd{
		Path: args[0], Args: args,
		Env:    []string{environment},
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true,
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS |
				syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
		},
	}
	p, err := process.Start(cmd, log)
	if errors.Is(err, syscall.EPERM) {
		return nil, fmt.Errorf("%w: no new namespaces are permitted: %w", ErrUnavailable, err)
	}
	return p, err
}
