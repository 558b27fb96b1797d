// Package detector is the detector's configuration file: its fields, defaults
// and rules. deploy/samples/detector.yaml documents it for the people who write
// it.
package detector

import (
	"time"

	"github.com/nodemend/nodemend/config/demand"
	"github.com/nodemend/nodemend/ipmi/verdict"
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

// Checks holds the settings of each check.
type Checks struct {
	Runtime  Runtime      `yaml:"runtime"`
	PLEG     PLEG         `yaml:"pleg"`
	Kubelet  KubeletCheck `yaml:"kubelet"`
	Hardware Hardware     `yaml:"hardware"`
}

// Run holds what every check has: when it runs, and how often in a row it must
// find the same before that is reported.
type Run struct {
	Enabled bool `yaml:"enabled"`
	// Interval between the starts of two runs; jittered.
	Interval Duration `yaml:"interval"`
	// FailureThreshold is how many runs in a row must find a problem, or fail
	// to tell, before a condition becomes True, or Unknown.
	FailureThreshold int `yaml:"failureThreshold"`
	// SuccessThreshold is how many runs in a row must find no problem before a
	// condition becomes False again.
	SuccessThreshold int `yaml:"successThreshold"`
	// StartupGrace is how long after the node has booted problems are not
	// reported.
	StartupGrace Duration `yaml:"startupGrace"`
}

// Runtime is the check that owns the condition ContainerRuntimeUnhealthy.
type Runtime struct {
	Run `yaml:",inline"`
	// Endpoint is the unix socket of the runtime's CRI, as the kubelet's
	// containerRuntimeEndpoint; empty: the first that exists of those that
	// containerd, CRI-O, k3s and RKE2 use.
	Endpoint string `yaml:"endpoint"`
	// Timeout of each of the calls that a run makes.
	Timeout Duration `yaml:"timeout"`
	// NetworkNotReady makes NetworkReady=false a problem.
	NetworkNotReady bool `yaml:"networkNotReady"`
}

// PLEG is the check that owns the condition PLEGUnhealthy.
type PLEG struct {
	Run `yaml:",inline"`
	// Timeout of one run.
	Timeout Duration `yaml:"timeout"`
	// MaxLastSeen is how old the kubelet's last relist of its pods may be.
	MaxLastSeen Duration `yaml:"maxLastSeen"`
	// KubeletGrace is how long after the kubelet has started it may lack a
	// first relist.
	KubeletGrace Duration `yaml:"kubeletGrace"`
}

// KubeletCheck is the check that owns the condition KubeletUnhealthy.
type KubeletCheck struct {
	Run `yaml:",inline"`
	// Timeout of one run.
	Timeout Duration `yaml:"timeout"`
	// Unit is the systemd unit of the kubelet; empty: the first that is loaded
	// of those that kubeadm, k3s and RKE2 use.
	Unit string `yaml:"unit"`
	// MaxRestarts within RestartWindow are no problem.
	MaxRestarts   int      `yaml:"maxRestarts"`
	RestartWindow Duration `yaml:"restartWindow"`
}

// Sources of a BMC's state.
const (
	SourceAuto     = "auto"
	SourceDevice   = "device"
	SourceIPMITool = "ipmitool"
)

// Hardware is the check that owns the condition HardwareFailure.
type Hardware struct {
	Run `yaml:",inline"`
	// Timeout of one run.
	Timeout Duration `yaml:"timeout"`
	// Source is one of auto, device and ipmitool. With auto it is the driver's
	// device, or else ipmitool if it has a host, or else the check is off.
	Source string `yaml:"source"`
	// Device of the kernel's IPMI driver; empty: its usual names.
	Device string `yaml:"device"`
	// IPMITool says how ipmitool is run.
	IPMITool IPMITool `yaml:"ipmitool"`
	// StateFile keeps what was read from the System Event Log and what people
	// have acknowledged.
	StateFile string `yaml:"stateFile"`
	// Rules come before the default ones.
	Rules verdict.Rules `yaml:"rules"`
}

// IPMITool says how ipmitool reaches the BMC.
type IPMITool struct {
	// Path of the program, or its name in PATH; empty: ipmitool.
	Path string `yaml:"path"`
	// Host of the BMC in the network; empty: the BMC of this machine.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	User string `yaml:"user"`
	// PasswordFile and KeyFile hold the user's password and the BMC's key.
	PasswordFile string `yaml:"passwordFile"`
	KeyFile      string `yaml:"keyFile"`
	CipherSuite  int    `yaml:"cipherSuite"`
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
	run := Run{
		Enabled: true, Interval: Duration{10 * time.Second},
		FailureThreshold: 2, SuccessThreshold: 2,
		StartupGrace: Duration{2 * time.Minute},
	}
	return Config{
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
		Checks: Checks{
			Runtime: Runtime{Run: run, Timeout: Duration{8 * time.Second}},
			PLEG: PLEG{
				Run: run, Timeout: Duration{8 * time.Second},
				MaxLastSeen: Duration{time.Minute}, KubeletGrace: Duration{2 * time.Minute},
			},
			Kubelet: KubeletCheck{
				Run: run, Timeout: Duration{8 * time.Second},
				MaxRestarts: 4, RestartWindow: Duration{10 * time.Minute},
			},
			Hardware: Hardware{
				Run: Run{
					Enabled: true, Interval: Duration{5 * time.Minute}, FailureThreshold: 2, SuccessThreshold: 2,
				},
				Timeout: Duration{2 * time.Minute}, Source: SourceAuto,
				IPMITool:  IPMITool{Port: 623, CipherSuite: 3},
				StateFile: "/var/lib/nodemend/hardware.json", Rules: verdict.Rules{},
			},
		},
		CustomPlugins: CustomPlugins{ProblemInterval: Duration{time.Minute}},
		Conditions:    map[string]Condition{},
	}
}
