package systemlog

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// npdConfigs are the configuration files for this monitor that NPD ships.
func npdConfigs(t testing.TB) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Skipf("the module of node-problem-detector is not at hand: %v", err)
	}
	all, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "config", "*.json"))
	if err != nil || len(all) == 0 {
		t.Skipf("node-problem-detector's configuration files are not at hand: %v", err)
	}
	var files []string
	ours := regexp.MustCompile(`"plugin": "(kmsg|filelog|journald)"`)
	for _, file := range all {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if ours.Match(data) {
			files = append(files, file)
		}
	}
	return files
}

func TestTheConfigurationFilesOfNPDAreAccepted(t *testing.T) {
	warnings := map[string]string{"disk-log-message-filelog.json": "a comma after the last element"}
	seen := map[string]bool{}
	for _, path := range npdConfigs(t) {
		base := filepath.Base(path)
		config, err := Load(path)
		if err != nil {
			t.Error(err)
			continue
		}
		seen[config.Plugin] = true
		want, warned := warnings[base], strings.Join(config.Warnings, "\n")
		if !strings.Contains(warned, want) || want == "" && warned != "" {
			t.Errorf("%s: got warnings %q, want one about %q", base, warned, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("files of these plugins were seen: %v, want all three", seen)
	}
}

func TestAllMistakesAreNamedAtOnce(t *testing.T) {
	_, err := Parse("node.json", []byte(`{
		"plugin": "syslog", "bufferSize": -1, "lookback": "5 minutes", "delay": "-1s", "source": "s",
		"conditions": [{"type": "A"}, {"type": "A"}, {}, {"type": "has space/"}],
		"rules": [
			{"type": "temporary", "reason": "R", "pattern": "("},
			{"type": "permanent", "condition": "B", "reason": "R", "pattern": "x"},
			{"type": "forever", "pattern": ""}
		]
	}`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"node.json: plugin: \"syslog\" is not accepted, kmsg, filelog and journald are",
		"node.json: bufferSize: -1 lines",
		"node.json: lookback: \"5 minutes\" is not accepted, a duration such as 90s",
		"node.json: delay: \"-1s\"",
		"node.json: conditions[1].type: \"A\" is declared twice",
		"node.json: conditions[2].type: is empty",
		"node.json: conditions[3].type: \"has space/\" is no type of a condition",
		"node.json: rules[0].pattern: error parsing regexp: missing closing ): `(`",
		"node.json: rules[1].condition: \"B\" is not declared under conditions",
		"node.json: rules[2].type: \"forever\" is not accepted, temporary and permanent are",
		"node.json: rules[2].reason: is empty",
		"node.json: rules[2].pattern: is empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestPluginsNeedTheirConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		want   []string
	}{
		"a text file without any": {
			`{"plugin": "filelog", "source": "s"}`,
			[]string{"logPath: is empty", "pluginConfig.timestamp: is empty", "pluginConfig.message: is empty", `pluginConfig.timestampFormat: "" is not accepted, a layout`},
		},
		"a text file with bad ones": {
			`{"plugin": "filelog", "source": "s", "logPath": "/x", "pluginConfig": {"timestamp": "[", "message": "*", "timestampFormat": "YYYY-MM-DD"}}`,
			[]string{"pluginConfig.timestamp: error parsing", "pluginConfig.message: error parsing", `"YYYY-MM-DD" is not accepted`},
		},
		"a journal without source": {
			`{"plugin": "journald", "source": "s"}`,
			[]string{"pluginConfig.source: is empty"},
		},
		"a field of the wrong type": {
			"{\"plugin\": \"kmsg\",\n \"bufferSize\": \"10\"}",
			[]string{"c.json:2:", "bufferSize"},
		},
		"no JSON": {"{\n  \"plugin\": kmsg\n}", []string{"c.json:2:13: invalid character 'k'"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("c.json", []byte(tc.config))
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestWhatHasNoEffectIsWarnedAbout(t *testing.T) {
	config, err := Parse("c.json", []byte(`{
		"plugin": "kmsg", "sauce": "x", "BUFFERSIZE": 3, "skipList": ["a"],
		"conditions": [{"type": "A", "reasn": "typo"}],
		"rules": [{"type": "temporary", "reason": "R", "pattern": "a,]", "path": "/bin/true"},]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"c.json:4:88: a comma after the last element, which node-problem-detector refuses",
		"c.json: conditions[0].reasn: no such field, it is ignored",
		"c.json: rules[0].path: no such field, it is ignored",
		"c.json: sauce: no such field, it is ignored",
		"c.json: skipList: only the plugin filelog uses it, it is ignored",
		"c.json: source: is empty, system-log-monitor is used",
		"c.json: conditions[0]: no permanent rule is for A: it is never reported",
	}
	if !slices.Equal(config.Warnings, want) {
		t.Errorf("got warnings\n%s\nwant\n%s", strings.Join(config.Warnings, "\n"), strings.Join(want, "\n"))
	}
	if config.BufferSize != 3 || config.Rules[0].Pattern != "a,]" || config.Lookback != "0" || !config.MetricsReporting() {
		t.Errorf("got %+v", config.Schema)
	}
}

func TestAConditionWithoutPermanentRuleIsLeftOut(t *testing.T) {
	config, err := Parse("c.json", []byte(`{
		"plugin": "kmsg", "source": "s",
		"conditions": [{"type": "A", "reason": "NoA"}, {"type": "B", "reason": "NoB"}, {"type": "C", "reason": "NoC"}],
		"rules": [
			{"type": "temporary", "condition": "A", "reason": "R0", "pattern": "a"},
			{"type": "permanent", "condition": "B", "reason": "R1", "pattern": "a"},
			{"type": "permanent", "condition": "B", "reason": "R2", "pattern": "b"}
		]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"c.json: conditions[0]: no permanent rule is for A: it is never reported",
		"c.json: conditions[2]: no permanent rule is for C: it is never reported",
	}
	if !slices.Equal(config.Warnings, want) {
		t.Errorf("got warnings %q", config.Warnings)
	}
	m := New(config, Options{Clock: clock.RealClock{}})
	if got := m.ConditionTypes(); !slices.Equal(got, []string{"B"}) {
		t.Errorf("got condition types %q", got)
	}
	if got := m.conditions.at(time.Now()); len(got) != 1 || got[0].Type != "B" {
		t.Errorf("got conditions %+v", got)
	}
	if got := config.Reasons(); !maps.EqualFunc(got, map[string][]string{"B": {"R1", "R2"}}, slices.Equal) {
		t.Errorf("got reasons %v", got)
	}
}

// Whatever is accepted can be run.
func FuzzParse(f *testing.F) {
	for _, path := range npdConfigs(f) {
		config, err := Load(path)
		if err != nil {
			continue
		}
		data, err := json.Marshal(config.Schema)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"plugin":"kmsg","rules":[{"type":"temporary","reason":"R","pattern":"a\\Q"},],}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse("f.json", data)
		if err != nil {
			return
		}
		m := New(config, Options{Clock: clock.RealClock{}})
		m.count = func(string, int64) error { return nil }
		if err := m.prepare(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
