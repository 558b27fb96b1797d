// Package detector is the detector's configuration file: its fields, defaults
// and rules. deploy/samples/detector.yaml documents it for the people who write
// it.
package detector

import "time"

// Config is a whole file. Fields that a file leaves out have the values of
// Default.
type Config struct {
	Heartbeat Heartbeat `yaml:"heartbeat"`
	Checks    Checks    `yaml:"checks"`
}

// Heartbeat says how often conditions are written that have not changed.
type Heartbeat struct {
	// Interval while every condition is False and has been so for ten minutes.
	Interval Duration `yaml:"interval"`
	// ProblemInterval at all other times.
	ProblemInterval Duration `yaml:"problemInterval"`
}

// Checks holds the settings of each check.
type Checks struct {
	ContainerRuntime ContainerRuntime `yaml:"containerRuntime"`
}

// ContainerRuntime is the check that owns the condition
// ContainerRuntimeUnhealthy.
type ContainerRuntime struct {
	Enabled bool `yaml:"enabled"`
	// Endpoint is the unix socket of the runtime's CRI, as the kubelet's
	// containerRuntimeEndpoint.
	Endpoint string `yaml:"endpoint"`
	// Interval between the starts of two runs.
	Interval Duration `yaml:"interval"`
	// Timeout of each of the calls that a run makes.
	Timeout Duration `yaml:"timeout"`
}

// Default returns the configuration that an empty file stands for.
func Default() Config {
	return Config{
		Heartbeat: Heartbeat{
			Interval:        Duration{5 * time.Minute},
			ProblemInterval: Duration{30 * time.Second},
		},
		Checks: Checks{
			ContainerRuntime: ContainerRuntime{
				Enabled:  true,
				Endpoint: "unix:///run/containerd/containerd.sock",
				Interval: Duration{10 * time.Second},
				Timeout:  Duration{5 * time.Second},
			},
		},
	}
}
