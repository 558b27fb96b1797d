//go:build integration

package npd

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	cpmtypes "k8s.io/node-problem-detector/pkg/custompluginmonitor/types"
	"k8s.io/node-problem-detector/pkg/types"
)

// shippedDir is where node-problem-detector's programs look for what it ships with.
const shippedDir = "/home/kubernetes/bin/"

// shippedConfig is a configuration file of a monitor, as far as tests look at it.
type shippedConfig struct {
	name       string
	Plugin     string
	Conditions []types.Condition
}

// monitorFlag is the flag that takes the file.
func (c shippedConfig) monitorFlag() string {
	switch c.Plugin {
	case "":
		return "--config.system-stats-monitor=config/" + c.name
	case "custom":
		return "--config.custom-plugin-monitor=config/" + c.name
	default:
		return "--config.system-log-monitor=config/" + c.name
	}
}

// ship gives the scene the folder config of node-problem-detector, with plugins
// that may be executed and files that name programs which are there.
func (s *scene) ship() (configs []shippedConfig) {
	s.t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", upstreamModule).Output()
	s.Expect(err).NotTo(HaveOccurred())
	source := os.DirFS(filepath.Join(strings.TrimSpace(string(module)), "config"))
	s.Expect(fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		target := s.path(filepath.Join("config", path))
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(target, 0o700))
		}
		data, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(data), shippedDir, s.path("bin")+"/")
		return os.WriteFile(target, []byte(text), 0o700)
	})).To(Succeed())
	s.command("health-checker", `exit 0`)

	files, err := filepath.Glob(s.path("config/*.json"))
	s.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "windows-") {
			continue
		}
		data, err := os.ReadFile(file)
		s.Expect(err).NotTo(HaveOccurred())
		c := shippedConfig{name: filepath.Base(file)}
		if err := json.Unmarshal(data, &c); err != nil {
			// One of the files is not quite JSON; node-problem-detector refuses it.
			s.Expect(c.name).To(Equal("disk-log-message-filelog.json"), err.Error())
			c.Plugin = "filelog"
		}
		configs = append(configs, c)
	}
	s.Expect(len(configs)).To(BeNumerically(">=", 15))
	return configs
}

func TestEveryConfigurationThatNodeProblemDetectorShipsIsAccepted(t *testing.T) {
	t.Parallel()
	s := newScene(t, detectorProgram(t))
	configs := s.ship()
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runShipped(t, c)
		})
	}
	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		runShipped(t, configs...)
	})
}

// runShipped runs the detector with files, until their conditions are there.
func runShipped(t *testing.T, configs ...shippedConfig) {
	t.Helper()
	s := newScene(t, detectorProgram(t))
	s.ship()
	s.createNode()
	for _, c := range configs {
		s.monitors = append(s.monitors, c.monitorFlag())
	}
	p := s.start()
	p.awaitUp()
	for _, condition := range certain(configs) {
		s.Eventually(func() (corev1.ConditionStatus, error) {
			c, err := s.condition(corev1.NodeConditionType(condition))
			return c.Status, err
		}).ShouldNot(BeEmpty(), "condition %s is set", condition)
	}
	s.Expect(p.HasExited()).To(BeFalse())
}

// certain returns the conditions that are set whatever logs this machine has: those
// that no file with another log has a say in.
func certain(configs []shippedConfig) (conditions []string) {
	kmsg, err := os.Open("/dev/kmsg")
	if err == nil {
		_ = kmsg.Close()
	}
	uncertain := map[string]bool{}
	for _, c := range configs {
		for _, condition := range c.Conditions {
			conditions = append(conditions, condition.Type)
			if c.Plugin != "custom" && (c.Plugin != "kmsg" || err != nil) {
				uncertain[condition.Type] = true
			}
		}
	}
	return slices.DeleteFunc(conditions, func(condition string) bool { return uncertain[condition] })
}

func TestPluginsThatNodeProblemDetectorShipsGiveTheSameVerdicts(t *testing.T) {
	t.Parallel()
	// Whether there are connections to count depends on the machine.
	conntrack := corev1.ConditionFalse
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_count"); err != nil {
		conntrack = corev1.ConditionUnknown
	}
	for name, world := range map[string]struct {
		systemctl, getent string
		want              map[string]corev1.ConditionStatus
		wantEvents        []string
	}{
		"on a good node": {"exit 0", "exit 0", map[string]corev1.ConditionStatus{
			"check_ntp": corev1.ConditionFalse, "dns_problem": corev1.ConditionFalse,
			"network_problem": conntrack, "iptables_mode": corev1.ConditionFalse,
		}, nil},
		"on a bad node": {"exit 3", "exit 2", map[string]corev1.ConditionStatus{
			"check_ntp": corev1.ConditionTrue, "dns_problem": corev1.ConditionTrue,
			"network_problem": conntrack, "iptables_mode": corev1.ConditionFalse,
		}, []string{"NTPIsDown", "DNSUnreachable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, program := range programs(t) {
				t.Run(program.name, func(t *testing.T) {
					t.Parallel()
					s := newScene(t, program)
					s.ship()
					s.command("systemctl", world.systemctl)
					s.command("getent", world.getent)
					s.createNode()
					var rules []*cpmtypes.CustomRule
					for plugin := range world.want {
						rules = append(rules, &cpmtypes.CustomRule{
							Type: types.Perm, Condition: plugin, Reason: "Found", Path: "./config/plugin/" + plugin + ".sh",
						})
					}
					s.customPlugins(plugins("1s", "20s", rules...))
					// Their temporary rules write events.
					s.monitors = append(s.monitors, "--config.custom-plugin-monitor=config/custom-plugin-monitor.json,config/network-problem-monitor.json")
					p := s.start()
					for plugin, want := range world.want {
						c := s.confirmed(corev1.NodeConditionType(plugin), want, p.started)
						t.Log(describe(c), c.Message)
					}
					s.confirmed("NTPProblem", world.want["check_ntp"], p.started)
					for _, reason := range world.wantEvents {
						s.Eventually(s.events).WithArguments(reason).ShouldNot(BeZero(), reason)
					}
					if len(world.wantEvents) == 0 {
						s.Expect(s.events("NTPIsDown") + s.events("DNSUnreachable")).To(BeZero())
					}
					s.Expect(s.calls("systemctl")).To(HaveEach("-q is-active ntp.service"))
				})
			}
		})
	}
}
