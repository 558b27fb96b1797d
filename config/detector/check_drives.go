package detector

import "time"

// Drives is the check that owns the condition DrivesUnhealthy.
type Drives struct {
	Run `yaml:",inline"`
	// Exclude are patterns of names of drives and arrays that are not looked at, or of models and serial
	// numbers of drives.
	Exclude []string `yaml:"exclude"`
	// Health is whether drives are asked how they are, which takes access to their devices.
	Health bool `yaml:"health"`
	// HealthInterval is how often.
	HealthInterval Duration `yaml:"healthInterval"`
	// MaxWait is how long a drive may take to answer.
	MaxWait Duration `yaml:"maxWait"`
	// MaxMediaErrors is how many blocks of a drive may be lost within a day, MaxErrors how
	// many requests may fail, in percent, and MaxUsed how much of the life may be used that
	// its maker names, in percent. Zero: that is not looked at.
	MaxMediaErrors int `yaml:"maxMediaErrors"`
	MaxErrors      int `yaml:"maxErrors"`
	MaxUsed        int `yaml:"maxUsed"`
	// StateFile keeps what was counted before, and drives that have failed.
	StateFile string `yaml:"stateFile"`
}

func (d *Drives) setDefaults() {
	*d = Drives{
		Run: Run{
			Enabled: true, Interval: Duration{30 * time.Second}, Timeout: Duration{25 * time.Second},
			// A controller that is reset is back within a minute, and ten minutes are longer
			// than the time in which failing requests are seen again after a restart.
			FailureThreshold: 3, SuccessThreshold: 20, StartupGrace: Duration{5 * time.Minute},
		},
		Exclude: []string{}, Health: true, HealthInterval: Duration{10 * time.Minute}, MaxWait: Duration{2 * time.Minute},
		MaxMediaErrors: 3, MaxErrors: 1, StateFile: "/var/lib/nodemend/drives.json",
	}
}

func (d *Drives) problems(found *problems, at func(field ...string) []string) {
	d.problemsWithin(maxHeartbeat, found, at)
	found.patterns(d.Exclude, "nvme1* and md127", at("exclude")...)
	found.within(d.HealthInterval, d.Interval.Duration, 24*time.Hour, ": it is at least the interval", at("healthInterval")...)
	found.within(d.MaxWait, d.Timeout.Duration, time.Hour, ": it is at least the timeout", at("maxWait")...)
	found.notNegative(d.MaxMediaErrors, "errors a day", at("maxMediaErrors")...)
	found.percent(d.MaxErrors, at("maxErrors")...)
	found.notNegative(d.MaxUsed, "percent", at("maxUsed")...)
	found.stateFile(d.StateFile, "what was counted before has to be kept", at("stateFile")...)
}
