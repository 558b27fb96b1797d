package detector

import "time"

// GPU is the check that owns the condition GPUUnhealthy.
type GPU struct {
	Run `yaml:",inline"`
	// Exclude are patterns of PCI addresses, models, serial numbers and UUIDs of GPUs that are not
	// looked at.
	Exclude []string `yaml:"exclude"`
	// Health is whether the driver is asked how GPUs are, by nvidia-smi.
	Health bool `yaml:"health"`
	// HealthInterval is how often.
	HealthInterval Duration `yaml:"healthInterval"`
	// MaxWait is how long the driver may take to answer.
	MaxWait Duration `yaml:"maxWait"`
	// MaxSlowdown is for how long a GPU may slow itself down, since it is too hot or lacks power.
	// Zero: that is not looked at.
	MaxSlowdown Duration `yaml:"maxSlowdown"`
	// NvidiaSMI is the program that asks the driver.
	NvidiaSMI NvidiaSMI `yaml:"nvidiaSMI"`
	// StateFile keeps which GPUs the node had.
	StateFile string `yaml:"stateFile"`
}

// NvidiaSMI says where nvidia-smi is.
type NvidiaSMI struct {
	// Path is the program's; empty: it is looked for.
	Path string `yaml:"path"`
	// Root is where its file system begins, such as /run/nvidia/driver; empty: where it was found,
	// or where that of the detector begins if Path is set.
	Root string `yaml:"root"`
}

func (g *GPU) setDefaults() {
	*g = GPU{
		Run: Run{
			Enabled: true, Interval: Duration{time.Minute}, Timeout: Duration{45 * time.Second},
			// A GPU that somebody resets, or whose driver is loaded anew, is back within two minutes.
			FailureThreshold: 3, SuccessThreshold: 3, StartupGrace: Duration{5 * time.Minute},
		},
		Exclude: []string{}, Health: true, HealthInterval: Duration{5 * time.Minute}, MaxWait: Duration{2 * time.Minute},
		MaxSlowdown: Duration{15 * time.Minute}, StateFile: "/var/lib/nodemend/gpu.json",
	}
}

func (g *GPU) problems(found *problems, at func(field ...string) []string) {
	g.problemsWithin(maxHeartbeat, found, at)
	found.patterns(g.Exclude, "0000:3b:00.0 and *165042*", at("exclude")...)
	found.within(g.HealthInterval, g.Interval.Duration, 24*time.Hour, ": it is at least the interval", at("healthInterval")...)
	found.within(g.MaxWait, g.Timeout.Duration, time.Hour, ": it is at least the timeout", at("maxWait")...)
	found.within(g.MaxSlowdown, 0, 24*time.Hour, "", at("maxSlowdown")...)
	found.path(g.NvidiaSMI.Path, at("nvidiaSMI", "path")...)
	found.path(g.NvidiaSMI.Root, at("nvidiaSMI", "root")...)
	if g.NvidiaSMI.Root != "" && g.NvidiaSMI.Path == "" {
		found.add("is for a program whose path is set: set nvidiaSMI.path, too, as seen from there", at("nvidiaSMI", "root")...)
	}
	found.stateFile(g.StateFile, "nobody else knows which GPUs the node had", at("stateFile")...)
}
