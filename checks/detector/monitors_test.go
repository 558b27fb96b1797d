package detector

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/customplugin"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/checks/systemlog"
	config "github.com/nodemend/nodemend/config/detector"
)

func TestTheReasonsOfPluginsThatNoLogHasAreOthers(t *testing.T) {
	plugins, err := customplugin.Parse("plugins.json", []byte(`{
		"plugin": "custom", "source": "plugins",
		"conditions": [{"type": "DiskBroken", "reason": "DiskIsFine", "message": "fine"}, {"type": "Other", "reason": "Fine", "message": "fine"}],
		"rules": [
			{"type": "permanent", "condition": "DiskBroken", "reason": "SelfTestFailed", "path": "/bin/true"},
			{"type": "permanent", "condition": "DiskBroken", "reason": "InputError", "path": "/bin/true"},
			{"type": "permanent", "condition": "Other", "reason": "Elsewhere", "path": "/bin/true"},
			{"type": "temporary", "reason": "Passing", "path": "/bin/true"}
		]}`))
	if err != nil {
		t.Fatal(err)
	}
	log, err := systemlog.Parse("log.json", []byte(`{
		"plugin": "kmsg", "logPath": "/dev/kmsg", "lookback": "5m", "bufferSize": 10, "source": "log",
		"conditions": [{"type": "DiskBroken", "reason": "DiskIsFine", "message": "fine"}],
		"rules": [{"type": "permanent", "condition": "DiskBroken", "reason": "InputError", "pattern": "I/O error"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	f := files{customPlugins: []customplugin.Config{plugins}, systemLogs: []systemlog.Config{log}}
	if diff := cmp.Diff([]string{"SelfTestFailed"}, f.othersReasons("DiskBroken")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAConditionIsNamedAlsoWhileItsCheckHasNothingToCheck(t *testing.T) {
	c := config.Default()
	c.Checks.Only = []string{"runtime", "pleg", "kubelet", "hardware"}
	c.Checks.Kubelet.Enabled = false
	got := (&detector{options: Options{Config: c}}).named()
	want := []corev1.NodeConditionType{containerruntime.ConditionType, "PLEGUnhealthy", "HardwareFailure"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSettingsOfAConditionThatHaveNoEffectAreTold(t *testing.T) {
	log, err := systemlog.Load(systemlog.BuiltinPrefix + "gpu")
	if err != nil {
		t.Fatal(err)
	}
	d := &detector{
		monitors: []monitor{systemlog.New(log, systemlog.Options{})},
		latches:  map[corev1.NodeConditionType]exporter.Latch{"GPUFailed": {}},
		absences: map[corev1.NodeConditionType][]string{"PLEGUnhealthy": nil},
	}
	for condition, want := range map[string]string{
		"GPUFailed":     "",
		"PLEGUnhealthy": "those of its check count",
		"GPUFaild":      "nothing reports it",
	} {
		if got := d.vain(condition, true); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", condition, got, want)
		}
	}
	delete(d.latches, "GPUFailed")
	if got := d.vain("GPUFailed", true); !strings.HasPrefix(got, "clearAfter is for") {
		t.Errorf("set by a plugin: got %q", got)
	}
	if got := d.vain("GPUFailed", false); got != "" {
		t.Errorf("set by a plugin, without clearAfter: got %q", got)
	}
}
