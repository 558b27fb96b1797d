package detector_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/config/detector"
)

func TestWhatAFileLeavesOutHasItsDefault(t *testing.T) {
	slower := detector.Default()
	slower.Checks.Runtime.Timeout.Duration = 7 * time.Second
	for name, tc := range map[string]struct {
		file string
		want detector.Config
	}{
		"empty":           {"", detector.Default()},
		"only a comment":  {"# nothing\n", detector.Default()},
		"an empty object": {"{}", detector.Default()},
		"empty sections":  {"heartbeat:\nchecks:\n  runtime:\n", detector.Default()},
		"one field":       {"checks: {runtime: {timeout: 7s}}", slower},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := detector.Parse("f.yaml", []byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryMistakeIsReportedWithItsLine(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"all kinds at once": {
			`heartbeat:
  interval: 5 minutes
  problemInterval: 2m
  jitter: 10%
checks:
  runtime:
    enabled: perhaps
    endpoint: /run/containerd/containerd.sock
    interval: 10s
    timeout: 11s
    failureThreshold: 0
  pleg:
    maxLastSeen: 4m
  kubelet:
    restartWindow: 1s
    successThreshold: 101
  kublet: {}
stateFile: state.json
kubelet:
  endpoint: http://127.0.0.1:10255
  certificateFiles:
  - kubelet.crt
customPlugins:
  problemInterval: 5m
conditions:
  KernelDeadlock:
    clearAfter: -1s
`,
			[]string{
				`f.yaml: line 2: "5 minutes" is not a duration: accepted are numbers with units, such as 90s or 1h30m`,
				`f.yaml: line 4: unknown field "jitter"`,
				"f.yaml: line 7: cannot unmarshal !!str `perhaps` into bool",
				`f.yaml: line 17: unknown field "kublet"`,
				`f.yaml: line 3: heartbeat.problemInterval: 2m0s is not between 1s and 1m0s: the controller would take reports for outdated`,
				`f.yaml: line 18: stateFile: "state.json" is not an absolute path`,
				`f.yaml: line 20: kubelet.endpoint: "http://127.0.0.1:10255" is not an address such as https://127.0.0.1:10250`,
				`f.yaml: line 21: kubelet.certificateFiles: "kubelet.crt" is not an absolute path`,
				`f.yaml: line 10: checks.runtime.timeout: 11s is not between 100ms and 10s (the interval)`,
				`f.yaml: line 11: checks.runtime.failureThreshold: 0 is not between 1 and 100`,
				`f.yaml: line 8: checks.runtime.endpoint: "/run/containerd/containerd.sock" is not a unix socket with an absolute path, such as unix:///run/containerd/containerd.sock`,
				`f.yaml: line 13: checks.pleg.maxLastSeen: 4m0s is not between 10s and 3m0s, when the kubelet itself reports it`,
				`f.yaml: line 16: checks.kubelet.successThreshold: 101 is not between 1 and 100`,
				`f.yaml: line 15: checks.kubelet.restartWindow: 1s is not between 1m0s and 24h0m0s`,
				`f.yaml: line 24: customPlugins.problemInterval: 5m0s is not between 1s and 1m0s: the controller would take reports for outdated`,
				`f.yaml: line 27: conditions.KernelDeadlock.clearAfter: -1s is not between 0s and 720h0m0s`,
			},
		},
		"a default that does not fit": {
			"heartbeat: {}\nchecks:\n  runtime:\n    interval: 2s\n",
			[]string{`f.yaml: line 3: checks.runtime.timeout: 8s is not between 100ms and 2s (the interval)`},
		},
		"a field twice": {
			"heartbeat: {}\nheartbeat: {}\n",
			[]string{`f.yaml: line 2: mapping key "heartbeat" already defined at line 1`},
		},
		"two documents": {
			"heartbeat: {}\n---\nheartbeat: {}\n",
			[]string{`f.yaml: only one YAML document is accepted in this file`},
		},
		"no object": {
			"- heartbeat\n",
			[]string{"f.yaml: line 1: cannot unmarshal !!seq into detector.Config"},
		},
		"no YAML": {
			"heartbeat: [\n",
			[]string{"f.yaml: yaml: line 1: did not find expected node content"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := detector.Parse("f.yaml", []byte(tc.file))
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	if _, err := detector.Load("/nonexistent/detector.yaml"); err == nil || !strings.Contains(err.Error(), "/nonexistent/detector.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestTheSampleShowsEveryFieldWithItsDefault(t *testing.T) {
	sample := filepath.Join("..", "..", "deploy", "samples", "detector.yaml")
	got, err := detector.Load(sample)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(detector.Default(), got); diff != "" {
		t.Errorf("the sample differs from the defaults (-default +sample):\n%s", diff)
	}

	// What is left out has its default too, so compare the fields themselves.
	var fields [2]map[string]any
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := yaml.Marshal(detector.Default())
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range [][]byte{defaults, text} {
		if err := yaml.Unmarshal(data, &fields[i]); err != nil {
			t.Fatal(err)
		}
		paths(fields[i])
	}
	if diff := cmp.Diff(fields[0], fields[1]); diff != "" {
		t.Errorf("the sample's fields differ (-all +sample):\n%s", diff)
	}
}

// paths replaces every value that is no object by "", which leaves the fields.
func paths(object map[string]any) {
	for key, value := range object {
		if inner, ok := value.(map[string]any); ok {
			paths(inner)
		} else {
			object[key] = ""
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("heartbeat: {interval: 1m}\nchecks:\n  runtime: {enabled: true, timeout: 7s}\n"))
	f.Add([]byte("conditions: {KernelDeadlock: {clearAfter: 1h}}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("<<: {checks: 1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := detector.Parse("f.yaml", data)
		if err == nil && c.Validate() != nil {
			t.Errorf("accepted although it is not valid: %v", c.Validate())
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
	})
}
