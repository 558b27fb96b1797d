package detector

import (
	"fmt"
	"time"
)

// Filesystem is the check that owns the condition FilesystemUnhealthy.
type Filesystem struct {
	Run `yaml:",inline"`
	// Ignore are folders. A file system is not looked at if all that is mounted of it
	// is mounted there or below.
	Ignore []string `yaml:"ignore"`
	// Write are folders in which each run writes and syncs a block, unless they do not
	// exist.
	Write []string `yaml:"write"`
	// MaxWait is how long a file system may take to answer, or to write that block.
	MaxWait Duration `yaml:"maxWait"`
	// MinAvailable is how much, in percent, has to be available of the space and of the
	// inodes: of large file systems less, see docs/checks.md. Zero: nothing has.
	MinAvailable int `yaml:"minAvailable"`
}

func (f *Filesystem) setDefaults() {
	*f = Filesystem{
		Run: Run{
			Enabled: true, Interval: Duration{30 * time.Second}, Timeout: Duration{20 * time.Second},
			FailureThreshold: 2, SuccessThreshold: 2, StartupGrace: Duration{2 * time.Minute},
		},
		Ignore:  []string{"/boot", "/var/lib/kubelet/pods", "/var/lib/kubelet/plugins", "/run/containerd", "/run/k3s/containerd"},
		Write:   []string{"/var/lib/nodemend"},
		MaxWait: Duration{2 * time.Minute}, MinAvailable: 1,
	}
}

func (f *Filesystem) problems(found *problems, at func(field ...string) []string) {
	f.problemsWithin(maxHeartbeat, found, at)
	found.folders(f.Ignore, at("ignore")...)
	found.folders(f.Write, at("write")...)
	found.within(f.MaxWait, f.Timeout.Duration, time.Hour, ": it is at least the timeout", at("maxWait")...)
	if f.MinAvailable < 0 || f.MinAvailable > 50 {
		found.add(fmt.Sprintf("%d is not between 0 and 50", f.MinAvailable), at("minAvailable")...)
	}
}
