package node

import (
	"testing"

	. "github.com/onsi/gomega"
)

const hybrid = `
25 1 0:23 / /sys/fs/cgroup rw shared:5 - tmpfs tmpfs rw,mode=755
26 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct
27 25 0:25 / /sys/fs/cgroup/cpuset rw shared:7 - cgroup cgroup rw,cpuset
28 25 0:26 / /sys/fs/cgroup/systemd rw shared:8 - cgroup cgroup rw,xattr,name=systemd
29 25 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw
`

func TestAHierarchyIsFoundByItsControllers(t *testing.T) {
	for controllers, want := range map[string]string{
		"cpu,cpuacct":  "/sys/fs/cgroup/cpu,cpuacct",
		"cpuset":       "/sys/fs/cgroup/cpuset",
		"name=systemd": "/sys/fs/cgroup/systemd",
		"":             "/sys/fs/cgroup/unified",
		"memory":       "",
	} {
		t.Run(controllers, func(t *testing.T) {
			NewWithT(t).Expect(mountedAt(hybrid, controllers)).To(Equal(want))
		})
	}
}

func TestGroupsAreMountedInsideAsOnAHost(t *testing.T) {
	g := NewWithT(t)
	g.Expect(mountScript([]group{{}})).To(Equal("mount -n -t cgroup2 cgroup2 \"$node/sys/fs/cgroup\"\n"))
	g.Expect(mountScript([]group{
		{mount: mount{controllers: "cpu,cpuacct"}}, {mount: mount{controllers: "name=systemd"}}, {},
	})).To(Equal(`mount -n -t tmpfs -o mode=755 tmpfs "$node/sys/fs/cgroup"
mkdir "$node/sys/fs/cgroup/cpu,cpuacct"
mount -n -t cgroup -o cpu,cpuacct cgroup "$node/sys/fs/cgroup/cpu,cpuacct"
ln -s cpu,cpuacct "$node/sys/fs/cgroup/cpu"
ln -s cpu,cpuacct "$node/sys/fs/cgroup/cpuacct"
mkdir "$node/sys/fs/cgroup/systemd"
mount -n -t cgroup -o none,name=systemd cgroup "$node/sys/fs/cgroup/systemd"
mkdir "$node/sys/fs/cgroup/unified"
mount -n -t cgroup2  cgroup2 "$node/sys/fs/cgroup/unified"
mount -n -o remount,ro "$node/sys/fs/cgroup"
`))
}
