// Package detector is the detector's configuration file: its fields, defaults
// and rules. deploy/samples/detector.yaml documents it for the people who write
// it.
package detector

import (
	"time"

	"github.com/nodemend/nodemend/internal/demand"
)

// Config is a whole file. Fields that a file leaves out have the values of
// Default.
type Config struct {
	Heartbeat Heartbeat `yaml:"heartbeat"`
	// StateFile keeps what conditions were last seen across restarts, for when
	// the API server can't be reached at the next start; empty: nowhere.
	StateFile string `yaml:"stateFile"`
	// Socket is the unix socket by which programs on the node ask the detector
	// to run its checks at once; empty: none.
	Socket string `yaml:"socket"`
	// Kubelet is how the kubelet is reached, for the checks that ask it.
	Kubelet Kubelet `yaml:"kubelet"`
	Checks  Checks  `yaml:"checks"`
	// CustomPlugins holds what is the same for all custom-plugin monitors.
	CustomPlugins CustomPlugins `yaml:"customPlugins"`
	// Conditions holds settings of conditions that monitors with a
	// configuration file of node-problem-detector report, by their type.
	Conditions map[string]Condition `yaml:"conditions"`
}

// Heartbeat says how often conditions are written that have not changed.
type Heartbeat struct {
	// Interval while every condition is False and has been so for ten minutes.
	Interval Duration `yaml:"interval"`
	// ProblemInterval at all other times.
	ProblemInterval Duration `yaml:"problemInterval"`
}

// Kubelet says where this node's kubelet listens and how it is known to be the
// kubelet. The detector's own credentials are shown to it.
type Kubelet struct {
	// Endpoint of its authenticated server.
	Endpoint string `yaml:"endpoint"`
	// HealthzEndpoint of its plain health server.
	HealthzEndpoint string `yaml:"healthzEndpoint"`
	// CertificateFiles hold, in PEM, certificates that the kubelet may serve or
	// that may have signed it. Those that do not exist are passed over. The API
	// server's certificate authority is always accepted.
	CertificateFiles []string `yaml:"certificateFiles"`
	// InsecureSkipTLSVerify takes whoever listens for the kubelet.
	InsecureSkipTLSVerify bool `yaml:"insecureSkipTLSVerify"`
}

// CustomPlugins are settings of all custom-plugin monitors.
type CustomPlugins struct {
	// ProblemInterval is how often rules run while their condition is not False,
	// unless they run more often anyway.
	ProblemInterval Duration `yaml:"problemInterval"`
	// AllowRepair lets health-checker repair what it finds by itself.
	AllowRepair bool `yaml:"allowRepair"`
}

// Condition are settings of one condition of a custom-plugin or system-log
// monitor. Thresholds that are left out are 1.
type Condition struct {
	FailureThreshold int `yaml:"failureThreshold"`
	SuccessThreshold int `yaml:"successThreshold"`
	// ClearAfter is how long after its last match a condition of a system-log
	// monitor becomes False; zero: at the next boot.
	ClearAfter Duration `yaml:"clearAfter"`
}

// Default returns the configuration that an empty file stands for.
func Default() Config {
	c := Config{
		Heartbeat: Heartbeat{
			Interval:        Duration{5 * time.Minute},
			ProblemInterval: Duration{30 * time.Second},
		},
		StateFile: "/var/lib/nodemend/detector.json",
		Socket:    demand.DefaultSocket,
		Kubelet: Kubelet{
			Endpoint:        "https://127.0.0.1:10250",
			HealthzEndpoint: "http://127.0.0.1:10248",
			CertificateFiles: []string{
				"/var/lib/kubelet/pki/kubelet.crt",
				"/var/lib/kubelet/pki/kubelet-server-current.pem",
			},
		},
		CustomPlugins: CustomPlugins{ProblemInterval: Duration{time.Minute}},
		Checks:        Checks{Only: []string{}},
		Conditions:    map[string]Condition{},
	}
	for _, check := range c.Checks.all() {
		check.setDefaults()
	}
	return c
}
