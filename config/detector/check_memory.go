package detector

import (
	"fmt"
	"time"
)

// Memory is the check that owns the condition MemoryUnhealthy.
type Memory struct {
	Run `yaml:",inline"`
	// Exclude are patterns of names of modules whose errors do not count.
	Exclude []string `yaml:"exclude"`
	// MaxCorrected is how many errors of a module may be corrected within a day, and
	// MaxOffline how many pages the kernel may have put out of use. Zero: that is not looked
	// at.
	MaxCorrected int `yaml:"maxCorrected"`
	MaxOffline   int `yaml:"maxOffline"`
	// StateFile keeps what was counted before.
	StateFile string `yaml:"stateFile"`
}

func (m *Memory) setDefaults() {
	*m = Memory{
		Run: Run{
			Enabled: true, Interval: Duration{time.Minute}, Timeout: Duration{20 * time.Second},
			// All is counted: a second look tells the same.
			FailureThreshold: 1, SuccessThreshold: 1,
		},
		Exclude: []string{}, MaxCorrected: 1000, MaxOffline: 100, StateFile: "/var/lib/nodemend/memory.json",
	}
}

func (m *Memory) problems(found *problems, at func(field ...string) []string) {
	m.problemsWithin(maxHeartbeat, found, at)
	found.patterns(m.Exclude, "DIMM_A1 and mc0*", at("exclude")...)
	found.notNegative(m.MaxCorrected, "errors a day", at("maxCorrected")...)
	found.notNegative(m.MaxOffline, "pages", at("maxOffline")...)
	found.stateFile(m.StateFile, "what was counted before has to be kept", at("stateFile")...)
}

func (p *problems) notNegative(n int, of string, at ...string) {
	if n < 0 {
		p.add(fmt.Sprintf("%d is not at least 0, in %s", n, of), at...)
	}
}

func (p *problems) stateFile(file, why string, at ...string) {
	if file == "" {
		p.add("is empty: "+why, at...)
	}
	p.path(file, at...)
}
