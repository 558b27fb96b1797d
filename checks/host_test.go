package checks

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyAProcessOfTheHostShowsTheHost(t *testing.T) {
	const host, container = firstPIDs, "pid:[4026532999]"
	for name, tt := range map[string]struct {
		pid               int
		pids, mounts, of1 string
		first             string
		inPod, sees       bool
	}{
		"it is alone in its container":          {1, container, "mnt:[2]", "mnt:[2]", "nodemend-agent", true, false},
		"a unit of the host":                    {500, host, "mnt:[1]", "mnt:[1]", "systemd", false, true},
		"a pod that has hostPID":                {500, host, "mnt:[2]", "mnt:[1]", "systemd", true, true},
		"a host without systemd":                {500, host, "mnt:[2]", "mnt:[1]", "machined", true, true},
		"a shell is its entry point":            {7, container, "mnt:[2]", "mnt:[2]", "sh", true, false},
		"its pod shares processes":              {7, container, "mnt:[2]", "mnt:[3]", "pause", true, false},
		"a node that is a container":            {500, container, "mnt:[2]", "mnt:[1]", "systemd", true, true},
		"a unit of a node that is a container":  {500, container, "mnt:[1]", "mnt:[1]", "systemd", false, true},
		"a process of a container that is none": {7, container, "mnt:[2]", "mnt:[2]", "sh", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			for path, target := range map[string]string{"self/ns/pid": tt.pids, "self/ns/mnt": tt.mounts, "1/ns/mnt": tt.of1} {
				if err := os.MkdirAll(filepath.Join(proc, filepath.Dir(path)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, filepath.Join(proc, path)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(proc, "1", "comm"), []byte(tt.first+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := seesHost(proc, tt.pid, tt.inPod); (err == nil) != tt.sees {
				t.Errorf("got %v, want none: %t", err, tt.sees)
			}
		})
	}
	if err := SeesHost(t.TempDir()); err != nil {
		t.Errorf("another process than the first was named: %v", err)
	}
}
