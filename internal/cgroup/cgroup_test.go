package cgroup

import (
	"strings"
	"testing"
)

func TestTheMountIsFound(t *testing.T) {
	for mountinfo, want := range map[string]struct{ point, root string }{
		"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n":                   {},
		"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n": {"/sys/fs/cgroup/unified", "/"},
		"41 31 0:38 /../.. /a\\040b rw - cgroup2 cgroup2 rw,nsdelegate\n":                                                                  {"/a b", "/../.."},
	} {
		if point, root := Mount(strings.NewReader(mountinfo)); point != want.point || root != want.root {
			t.Errorf("got %q of %q, want %+v", point, root, want)
		}
	}
}
