package customplugin

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/checks"
)

const full = `{
  "plugin": "custom",
  "pluginConfig": {"invoke_interval": "1m", "timeout": "4s", "max_output_length": 120, "concurrency": 2,
    "skip_initial_status": true, "enable_message_change_based_condition_update": true},
  "source": "disks",
  "metricsReporting": false,
  "conditions": [{"type": "DiskBad", "reason": "DiskGood", "message": "fine"}],
  "rules": [
    {"type": "permanent", "condition": "DiskBad", "reason": "Smart", "path": "/bin/sh", "args": ["-c", "true"], "timeout": "3s"},
    {"type": "temporary", "reason": "Slow", "path": "/bin/sh"}
  ]
}`

func TestAFileMeansWhatNPDTakesItFor(t *testing.T) {
	got, err := Parse("disks.json", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		name: "disks.json", source: "disks", interval: time.Minute, concurrency: 2, maxOutput: 120,
		conditions: []checks.Observation{{Type: "DiskBad", Reason: "DiskGood", Message: "fine"}},
		rules: []rule{
			{condition: "DiskBad", reason: "Smart", path: "/bin/sh", args: []string{"-c", "true"}, timeout: 3 * time.Second},
			{temporary: true, reason: "Slow", path: "/bin/sh", timeout: 4 * time.Second},
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Config{}, rule{})); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestDefaultsAreThoseOfNPD(t *testing.T) {
	got, err := Parse("a.json", []byte(`{"plugin": "custom", "source": "a", "rules": [{"type": "temporary", "reason": "A", "path": "/bin/sh"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.interval != 30*time.Second || got.concurrency != 3 || got.maxOutput != 80 || !got.MetricsReporting() || got.rules[0].timeout != 5*time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	_, err := Parse("bad.json", []byte(`{
  "plugin": "kmsg",
  "pluginConfig": {"invoke_interval": "0s", "timeout": "-1s", "max_output_length": -1, "concurrency": 0},
  "conditions": [{"type": "A"}, {"type": "A"}, {"reason": "NoType"}, {"type": "has space/"}],
  "rules": [
    {"type": "permanent", "condition": "B", "path": "/bin/sh", "timeout": "10s"},
    {"type": "sometimes", "path": "/no/such/plugin", "timeout": "5 s"},
    {"type": "temporary", "timeout": "0"}
  ]
}`))
	want := `bad.json: plugin: "kmsg" is not known: only "custom" is
bad.json: pluginConfig.invoke_interval: 0s is not above zero and at most 8784h0m0s
bad.json: pluginConfig.timeout: -1s is not above zero and at most 24h0m0s
bad.json: rules[1].timeout: "5 s" is not a duration: accepted are numbers with units, such as 90s or 1h30m
bad.json: rules[2].timeout: 0s is not above zero and at most 24h0m0s
bad.json: pluginConfig.concurrency: 0 plugins at once would never run: at least 1 is needed
bad.json: pluginConfig.max_output_length: -1 is negative
bad.json: conditions[1].type: A is there twice: keep one
bad.json: conditions[2].type: is missing
bad.json: conditions[3].type: "has space/" is no type of a condition: accepted are letters, digits, -, _ and ., beginning and ending with one of the first two, such as KernelDeadlock, and before that a domain and /
bad.json: rules[0].condition: "B" has no entry in conditions, which says what to report when there is no problem: add one
bad.json: rules[0].timeout: 10s is above pluginConfig.timeout, which is 5s: lower the one or raise the other
bad.json: rules[1].type: "sometimes" is not known: accepted are "permanent" and "temporary"
bad.json: rules[1].path: /no/such/plugin does not exist: correct it, or install the plugin on this machine
bad.json: rules[2].path: is missing`
	if err == nil {
		t.Fatal("no mistake was found")
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestWhatIsNoConfigurationIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"empty":         {"", "x.json: line 1: unexpected end of JSON input"},
		"no JSON":       {"{\n\"plugin\": custom\n}", "x.json: line 2: invalid character 'c'"},
		"a wrong type":  {"{\"plugin\": \"custom\",\n\n\"rules\": 7}", "x.json: line 3: json: cannot unmarshal number"},
		"null":          {"null", `x.json: plugin: "" is not known`},
		"a null rule":   {`{"plugin": "custom", "rules": [null]}`, "x.json: rules[0]: is null"},
		"two documents": {full + "\n" + full, "x.json: line 13: invalid character '{' after top-level value"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("x.json", []byte(tc.data)); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got error %v, want %s…", err, tc.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent.json")); err == nil || !strings.Contains(err.Error(), "absent.json") {
		t.Errorf("a file that is not there: got error %v, want one with its name", err)
	}
}

func TestWhatHasNoEffectIsAWarning(t *testing.T) {
	got, err := Parse("w.json", []byte(`{
  "plugin": "custom", "colour": "red",
  "conditions": [{"type": "Judged"}, {"type": "Forgotten", "reason": "Fine"}],
  "rules": [{"type": "permanent", "condition": "Judged", "path": "/bin/sh", "retries": 3}]
}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`w.json: unknown field "colour": check its spelling, or remove it`,
		`w.json: unknown field "rules[0].retries": check its spelling, or remove it`,
		`w.json: source is missing: reports will not say where they are from`,
		`w.json: rules[0].reason is missing: reports of it will not have one`,
		`w.json: conditions[1]: no permanent rule is for Forgotten: it is never reported`,
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// What NPD ships is read with the paths of its plugins replaced by one that
// exists here.
func TestTheFilesThatNPDShipsAreAccepted(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "config", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`"plugin": *"custom"`).Match(data) {
			continue
		}
		found++
		t.Run(filepath.Base(file), func(t *testing.T) {
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				t.Fatal(err)
			}
			for _, r := range fields["rules"].([]any) {
				r.(map[string]any)["path"] = "/bin/sh"
			}
			data, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			config, err := Parse(file, data)
			if err != nil || len(config.Warnings) > 0 || len(config.rules) == 0 {
				t.Errorf("got %d rules, warnings %q, error %v", len(config.rules), config.Warnings, err)
			}
		})
	}
	if found < 8 {
		t.Errorf("only %d configurations of custom plugins found in %s", found, dir)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"plugin": "custom", "rules": [null]}`))
	f.Add([]byte(`{"plugin": "custom", "pluginConfig": {"timeout": "2540400h", "concurrency": 1e3}, "rules": [{"type": "temporary", "path": "/"}]}`))
	f.Add([]byte(`{"plugin": "custom", "conditions": [{"type": "A", "transition": "2020-01-01T00:00:00Z"}], "rules": [{"type": "permanent", "condition": "A", "path": "\u0000"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse("fuzz.json", data)
		if err != nil {
			return
		}
		if config.interval <= 0 || config.concurrency < 1 || config.maxOutput < 0 {
			t.Errorf("this does not run: %+v", config)
		}
		reported := New(config, Options{}).ConditionTypes()
		for _, r := range config.rules {
			if r.timeout <= 0 || r.timeout > maxTimeout || r.path == "" {
				t.Errorf("this rule does not run: %+v", r)
			}
			if !r.temporary && !slices.Contains(reported, r.condition) {
				t.Errorf("the condition of this rule is none of %q: %+v", reported, r)
			}
		}
	})
}
