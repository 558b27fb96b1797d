package detector

import (
	"fmt"
	"time"
)

// Exhaustion is the check that owns the condition ResourcesExhausted.
type Exhaustion struct {
	Run `yaml:",inline"`
	// MaxUsed is how much of a limit may be used, in percent.
	MaxUsed int `yaml:"maxUsed"`
	// Programs are those whose own limits are looked at, by the kernel's name of their
	// process: its first 15 bytes.
	Programs []string `yaml:"programs"`
}

// maxComm is how much of a program's name the kernel keeps.
const maxComm = 15

func (e *Exhaustion) setDefaults() {
	*e = Exhaustion{
		Run: Run{
			Enabled: true, Interval: Duration{30 * time.Second}, Timeout: Duration{10 * time.Second},
			FailureThreshold: 3, SuccessThreshold: 3, StartupGrace: Duration{2 * time.Minute},
		},
		MaxUsed:  90,
		Programs: []string{"kubelet", "containerd", "crio", "dockerd", "k3s-server", "k3s-agent", "rke2"},
	}
}

func (e *Exhaustion) problems(found *problems, at func(field ...string) []string) {
	e.problemsWithin(maxHeartbeat, found, at)
	if e.MaxUsed < 50 || e.MaxUsed > 100 {
		found.add(fmt.Sprintf("%d is not between 50 and 100", e.MaxUsed), at("maxUsed")...)
	}
	for _, name := range e.Programs {
		if name == "" || len(name) > maxComm {
			found.add(fmt.Sprintf("%q has %d bytes: the kernel's name of a process has 1 to %d, see /proc/PID/comm", name, len(name), maxComm), at("programs")...)
		}
	}
}
