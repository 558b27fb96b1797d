package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// healthCheck is a NodeHealthCheck with further lines of its spec.
func healthCheck(lines string) string {
	return "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: a}\nspec:\n" +
		"  selector: {matchLabels: {pool: a}}\n  remediationTemplate: {kind: FenceAgentsRemediationTemplate, name: t}\n" + lines
}

// magnumFileWith is a configuration with a check of workers.
func magnumFileWith(params string) string {
	return "cluster-name: a\nhealthcheck:\n  worker:\n  - type: NodeCondition\n    params: {" + params + "}\n"
}

// converted returns what a text is converted to.
func converted(t *testing.T, text string) Result {
	t.Helper()
	result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f", Data: []byte(text)})
	for _, mistake := range mistakes {
		t.Error(mistake)
	}
	return result
}

func TestAMistakeIsNamedWithItsPlaceAndWhatIsExpected(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                {"", "f: nothing in it to convert; accepted are NodeHealthCheck"},
		"another kind":           {"apiVersion: v1\nkind: Secret\n", "f: nothing in it to convert"},
		"another DaemonSet":      {"apiVersion: apps/v1\nkind: DaemonSet\nspec: {template: {spec: {containers: [{image: a/b:1}]}}}\n", "f: nothing in it to convert"},
		"our own maintenance":    {"apiVersion: nodemend.dev/v1alpha1\nkind: NodeMaintenance\nmetadata: {name: a}\n", "f: nothing in it to convert"},
		"a list":                 {"- a\n", "f:1: expected an object or a configuration, as name: value"},
		"no YAML":                {"kind: [\n", "f:1: did not find expected node content"},
		"a repeated key":         {"kind: NodeHealthCheck\nkind: NodeHealthCheck\n", `f:2: mapping key "kind" already defined at line 1`},
		"an endless anchor":      {"a: &a\n  b: *a\n", "anchor 'a' value contains itself"},
		"an endless merge":       {"kind: NodeHealthCheck\nspec: &a\n  <<: *a\n", "f:"},
		"a text for fields":      {"kind: NodeHealthCheck\nmetadata: {name: a}\nspec: a\n", "f:3: spec: expected remediationTemplate or escalatingRemediations"},
		"no name":                {"kind: NodeHealthCheck\nspec: {remediationTemplate: {kind: ATemplate, name: a}}\n", "metadata.name: expected a name, found nothing"},
		"no condition":           {healthCheck("  unhealthyConditions: []\n"), "f:7: spec.unhealthyConditions: expected a condition: with none it would do nothing"},
		"no template":            {"kind: NodeHealthCheck\nmetadata: {name: a}\nspec:\n  minHealthy: 1\n", "f:3: spec: expected remediationTemplate or escalatingRemediations"},
		"a limit":                {healthCheck("  minHealthy: many\n"), `f:7: spec.minHealthy: expected a number or a percentage, such as 3 or 51%, found "many"`},
		"two limits":             {healthCheck("  minHealthy: 1\n  maxUnhealthy: 1\n"), "f:8: spec.maxUnhealthy: expected either minHealthy or maxUnhealthy"},
		"a type":                 {healthCheck("  unhealthyConditions:\n  - {type: \"A}, {type: B\", status: 'True', duration: 1m}\n"), "f:8: spec.unhealthyConditions[0].type: expected the type of a condition"},
		"a name":                 {"kind: NodeMaintenance\nmetadata: {name: \"a\\nspec: {}\"}\nspec: {nodeName: b}\n", "f:2: metadata.name: expected a name of lower-case letters"},
		"a status":               {healthCheck("  unhealthyConditions:\n  - {type: A, status: yes, duration: 1m}\n"), `f:8: spec.unhealthyConditions[0].status: expected "True", "False" or Unknown, found "yes"`},
		"a time":                 {healthCheck("  unhealthyConditions:\n  - type: A\n    status: Unknown\n    duration: 5\n"), `f:10: spec.unhealthyConditions[0].duration: expected a time with a unit, such as 90s or 5m, found "5"`},
		"no time":                {healthCheck("  unhealthyConditions:\n  - {type: A, status: Unknown}\n"), "f:8: spec.unhealthyConditions[0].duration: expected a time, such as 5m, found nothing"},
		"a negative time":        {healthCheck("  unhealthyConditions:\n  - {type: A, status: Unknown, duration: -5m}\n"), `f:8: spec.unhealthyConditions[0].duration: expected a time with a unit, such as 90s or 5m, found "-5m"`},
		"a delay":                {healthCheck("  healthyDelay: -x\n"), `f:7: spec.healthyDelay: expected a time, such as 10m or -1s, found "-x"`},
		"a list for a field":     {healthCheck("  healthyDelay: [1m]\n"), "f:7: spec.healthyDelay: expected a time, such as 10m, found a list"},
		"a field for a list":     {healthCheck("  pauseRequests: a\n"), "f:7: spec.pauseRequests: expected a list"},
		"a selector":             {"kind: NodeHealthCheck\nmetadata: {name: a}\nspec:\n  selector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}\n  remediationTemplate: {kind: ATemplate, name: a}\n", "f:4: spec.selector: expected a selector of labels"},
		"a machine's condition":  {"kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {checks: {unhealthyNodeConditions: [{type: A, status: Unknown, timeoutSeconds: 5m}]}}\n", `timeoutSeconds: expected a number of seconds, found "5m"`},
		"no machine condition":   {"kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {clusterName: a}\n", "f:3: spec: expected unhealthyConditions, or checks.unhealthyNodeConditions"},
		"a range":                {"kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {unhealthyRange: 3-5, unhealthyConditions: [{type: A, status: Unknown, timeout: 5m}]}\n", `f:3: spec.unhealthyRange: expected a range, such as [3-5], found "3-5"`},
		"a value without quotes": {magnumFileWith("ok-values: [True]"), `f:5: healthcheck.worker[0].params.ok-values[0]: expected "True" in quotes: magnum-auto-healer refuses it without`},
		"nanoseconds":            {magnumFileWith("unhealthy-duration: 300"), `f:5: healthcheck.worker[0].params.unhealthy-duration: expected a time with a unit, such as 90s or 5m, found "300"`},
		"no check":               {"cluster-name: a\n", "f:1: expected a check of type NodeCondition in healthcheck.worker or healthcheck.master"},
		"an argument of kured":   {"kured now\n", `f:1: expected a flag of kured, found "now"`},
		"a flag without value":   {"kured --concurrency\n", "f:1: --concurrency: expected a value"},
		"a day":                  {"kured --reboot-days=mon,someday\n", `f:1: --reboot-days: expected days such as mon,tue,sat, found "someday"`},
		"a time of day":          {"kured\n --start-time=late\n", `f:2: --start-time: expected a time of day, such as 22:00 or 9pm, found "late"`},
		"no day":                 {"kured --reboot-days=''\n", "f:1: --reboot-days: expected a day such as mon: kured would never reboot"},
		"no time at all":         {"kured --start-time=2:00 --end-time=2:00\n", "f:1: --end-time: expected another time than that of --start-time"},
		"a percentage of nodes":  {"kured --concurrency=5%\n", `f:1: --concurrency: expected a number from 0 to 500, found "5%"`},
		"a time zone":            {"kured --start-time=22:00 --time-zone=Mars/Base\n", "f:1: --time-zone: expected a time zone, such as Europe/Berlin"},
		"a selector of pods":     {"kured --blocking-pod-selector='a=b=c'\n", "f:1: --blocking-pod-selector: expected a selector of labels"},
		"quotes":                 {"kured --reboot-days='mon\n", "f:1: expected another ' at the end of what is in quotes"},
		"flags of nobody":        {"--nonsense\n", "f:1: expected a line that begins with kured or draino"},
		"a shell":                {"kind: DaemonSet\nspec: {template: {spec: {containers: [{image: a/kured, command: [/bin/sh, -c, kured]}]}}}\n", "f:2: spec.template.spec.containers[0].command: expected kured with its flags, found a shell"},
		"draino without a word":  {"draino --dry-run\n", "f:1: expected the conditions that drain a node, as arguments of draino"},
		"a condition of draino":  {"draino Ready=Unknown\n", `f:1: expected a condition as TYPE or TYPE=STATUS,DURATION, such as Ready=Unknown,30m, found "Ready=Unknown"`},
		"a label of draino":      {"draino --node-label=a A\n", `f:1: --node-label: expected a label as KEY=VALUE, found "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f", Data: []byte(test.text)})
			if !slices.ContainsFunc(mistakes, func(m Note) bool { return strings.Contains(m.String(), test.want) }) {
				t.Errorf("got  %v\nwant %s", mistakes, test.want)
			}
			if result.YAML != "" {
				t.Errorf("in spite of a mistake there is a result:\n%s", result.YAML)
			}
		})
	}
}

func TestWhatIsNotCarriedOverIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"a field that nobody knows":        {healthCheck("  tomorrow: true\n"), []string{"f:7: spec.tomorrow: not carried over: NodeHealthCheck has no such field"}},
		"one below":                        {healthCheck("  unhealthyConditions:\n  - {type: Ready, status: Unknown, duration: 1m, severity: 3}\n"), []string{"f:8: spec.unhealthyConditions[0].severity: not carried over"}},
		"a template that nobody names":     {healthCheck("---\nkind: SelfNodeRemediationTemplate\nmetadata:\n  name: other\nspec: {}\n"), []string{"f:10: metadata.name: not carried over: no NodeHealthCheck or MachineHealthCheck of these files names this SelfNodeRemediationTemplate"}},
		"a condition that is well and not": {healthCheck("  unhealthyConditions:\n  - {type: A, status: 'True', duration: 1m}\n  - {type: A, status: 'False', duration: 1m}\n"), []string{"f:8: spec.unhealthyConditions[0]: which is meant: A is a fault both as True and as False"}},
		"a polarity that nobody knows":     {healthCheck("  unhealthyConditions:\n  - {type: A, status: Unknown, duration: 1m}\n"), []string{`which is meant: of A only Unknown is a fault, so "False" counts as healthy here; if "True" is, add healthy: "True"`}},
		"a camel that changes nothing":     {magnumFileWith("unhealthyDuration: 300s, okValues: ['True']"), nil},
		"a camel beside the kebab":         {magnumFileWith("unhealthyDuration: 1m, unhealthy-duration: 2m"), []string{"unhealthyDuration: which is meant: magnum-auto-healer ignores camel case since June 2019: what ran was unhealthy-duration"}},
		"a camel":                          {magnumFileWith("unhealthyDuration: 1m"), []string{"f:5: healthcheck.worker[0].params.unhealthyDuration: which is meant: magnum-auto-healer ignores camel case since June 2019: what ran, and what the policy has, is unhealthy-duration: 5m. If 1m is meant, write it there"}},
		"values in camel case":             {magnumFileWith("errorValues: [Unknown]"), []string{"errorValues: which is meant: magnum-auto-healer ignores camel case since June 2019: what ran, and what the policy has, is error-values: []. If [Unknown] is meant"}},
		"a flag of a later kured":          {"kured --tomorrow=1\n", []string{"f:1: --tomorrow: not carried over: kured has no such flag"}},
		"a time zone of few letters":       {"kured --start-time=22:00 --time-zone=CET\n", []string{"--time-zone: which is meant: a budget takes names such as Europe/Berlin, not CET"}},
		"a flag that is off":               {"kured --annotate-nodes=false --notify-url=''\n", nil},
		"an empty label":                   {"draino --node-label-expr=\"metadata.labels.a == ''\" --evict-statefulset-pods A\n", []string{"f:1: --node-label-expr: not carried over: a selector cannot say it"}},
		"a disjunction":                    {"draino --node-label-expr=\"metadata.labels.a == 'b' || metadata.labels.a == 'c'\" --evict-statefulset-pods A\n", []string{"f:1: --node-label-expr: not carried over: a selector cannot say it: the policy selects no node until you write one"}},
	} {
		t.Run(name, func(t *testing.T) {
			notes := converted(t, test.text).Notes
			for _, want := range test.want {
				if !slices.ContainsFunc(notes, func(n Note) bool { return strings.Contains(n.String(), want) }) {
					t.Errorf("got  %v\nwant %s", notes, want)
				}
			}
			if test.want == nil {
				for _, n := range notes {
					if n.Kind == Question || strings.Contains(n.Field, "annotate") || strings.Contains(n.Field, "notify") {
						t.Error(n)
					}
				}
			}
		})
	}
}

// The 16 entries that a policy has room for do not hide that there were more.
func TestConditionsThatHaveNoRoomAreNamed(t *testing.T) {
	lines := "  unhealthyConditions:\n"
	for i := range 18 {
		lines += "  - {type: A" + string(rune('a'+i)) + ", status: 'True', duration: 1m}\n"
	}
	result := converted(t, healthCheck(lines))
	if got := strings.Count(result.YAML, "\n  - {type: "); got != mostMatches {
		t.Errorf("%d entries of match", got)
	}
	if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Line == 24 && strings.Contains(n.Message, "at most 16 conditions") }) {
		t.Errorf("nobody says it: %v", result.Notes)
	}
}

func TestATextOfTheInputStaysAText(t *testing.T) {
	for name, input := range map[string]string{
		"a reason":       "kind: NodeMaintenance\nmetadata: {name: a}\nspec: {nodeName: \"b: c\", reason: \"x\\n  drain: {}\\u2028y\"}\n",
		"a pause":        healthCheck("  pauseRequests: [\"over\\n---\\nkind: Evil\"]\n"),
		"an unknown key": healthCheck("  \"a\\nkind: Evil\": 1\n"),
		"a flag":         "draino --node-label-expr=\"x || y\nkind: Evil\" A\n",
		"a sentinel":     "kured --reboot-sentinel='/a\nkind: Evil'\n",
	} {
		t.Run(name, func(t *testing.T) {
			result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f\nkind: Evil", Data: []byte(input)})
			if len(mistakes) > 0 {
				t.Fatal(mistakes)
			}
			only(t, result)
		})
	}
}

// only checks that a result is YAML of as many objects of our kinds as it says.
func only(t *testing.T, result Result) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(result.YAML))
	objects := 0
	for {
		var object struct {
			APIVersion string         `yaml:"apiVersion"`
			Kind       string         `yaml:"kind"`
			Metadata   map[string]any `yaml:"metadata"`
			Spec       map[string]any `yaml:"spec"`
		}
		if err := decoder.Decode(&object); err != nil {
			break
		}
		objects++
		if object.APIVersion != "nodemend.dev/v1alpha1" || !slices.Contains([]string{"RemedyPolicy", "RemediationBudget", "NodeMaintenance"}, object.Kind) {
			t.Errorf("there is a %s %s in\n%s", object.APIVersion, object.Kind, result.YAML)
		}
		if steps, _ := object.Spec["steps"].([]any); object.Kind == "RemedyPolicy" && (object.Spec["mode"] != "DryRun" || len(steps) == 0 || len(steps) > 4) {
			t.Errorf("a policy has the mode %v and %d steps:\n%s", object.Spec["mode"], len(steps), result.YAML)
		}
	}
	if want := result.Policies + result.Budgets + result.Maintenances; objects != want {
		t.Errorf("%d objects, said to be %d:\n%s", objects, want, result.YAML)
	}
}

func TestEnforceIsForWhoHasActed(t *testing.T) {
	for text, want := range map[string]string{
		healthCheck(""):                                       "mode: Enforce",
		"dry-run: true\n" + magnumFileWith(""):                "mode: DryRun",
		"dryRun: true\n" + magnumFileWith(""):                 "mode: DryRun",
		"draino --dry-run A\n":                                "mode: DryRun",
		"draino --no-dry-run A\n":                             "mode: Enforce",
		"draino --dry-run=false A\n":                          "mode: Enforce",
		"kured\n":                                             "mode: Enforce",
		"dryRun: true\ndry-run: false\n" + magnumFileWith(""): "mode: Enforce",
	} {
		result, mistakes := Convert(v1alpha1.ModeEnforce, File{Name: "f", Data: []byte(text)})
		if !strings.Contains(result.YAML, want) || len(mistakes) > 0 {
			t.Errorf("%s: %v\nwant %s in\n%s", text, mistakes, want, result.YAML)
		}
	}
}

func TestATemplateMayBeInAnotherFile(t *testing.T) {
	check := strings.Replace(healthCheck(""), "kind: FenceAgentsRemediationTemplate, name: t", "kind: SelfNodeRemediationTemplate, name: t, namespace: n", 1)
	template := "kind: SelfNodeRemediationTemplate\nmetadata: {name: t, namespace: n}\nspec:\n  template:\n    spec:\n      remediationStrategy: OutOfServiceTaint\n"
	result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "a", Data: []byte(template)}, File{Name: "b", Data: []byte(check)})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.File == "a" && n.Line == 6 && n.Kind == Lost }) {
		t.Errorf("nothing is said about the strategy: %v", result.Notes)
	}
	if slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Kind == Question }) {
		t.Errorf("it is taken for missing: %v", result.Notes)
	}
}

func TestNamesAreUnique(t *testing.T) {
	result := converted(t, healthCheck("---\n")+healthCheck(""))
	if strings.Count(result.YAML, "\n  name: a\n") != 2 || strings.Count(result.YAML, "\n  name: a-2\n") != 2 {
		t.Error(result.YAML)
	}
}

func TestTheTimeOfAnEscalationIsShared(t *testing.T) {
	for timeout, want := range map[time.Duration][2]time.Duration{
		time.Minute:      {4 * time.Minute, time.Minute},
		5 * time.Minute:  {4 * time.Minute, time.Minute},
		15 * time.Minute: {12 * time.Minute, 3 * time.Minute},
		time.Hour:        {55 * time.Minute, 5 * time.Minute},
	} {
		boot, check, _ := shared(timeout)
		if boot != want[0] || check != want[1] {
			t.Errorf("%v: %v and %v", timeout, boot, check)
		}
	}
}

// windowsOf returns the windows of a budget, without their time zone.
func windowsOf(t *testing.T, flags string) (windows []string) {
	t.Helper()
	for line := range strings.Lines(converted(t, "kured "+flags+"\n").YAML) {
		if text, found := strings.CutPrefix(line, "  - {"); found && strings.Contains(text, "start: ") {
			window, _, _ := strings.Cut(text, ", timeZone")
			windows = append(windows, window)
		}
	}
	return windows
}

func TestKuredsWindowsAreThoseOfTheBudget(t *testing.T) {
	for flags, want := range map[string][]string{
		"":                                    nil,
		"--start-time=0:00":                   nil,
		"--start-time=9am --end-time=17":      {`start: "09:00", end: "17:00"`},
		"--start-time=22:00 --end-time=06:30": {`start: "22:00", end: "06:30"`},
		"--start-time=23:30:10":               {`start: "23:31", end: "00:00"`},
		"--reboot-days=mon --start-time=22:00 --end-time=0:00": {`days: [Mon], start: "22:00", end: "00:00"`},
		"--end-time=5:59:59":                   {`start: "00:00", end: "06:00"`},
		"--reboot-days=0,Sat --reboot-days=we": {`days: [Wed, Sat, Sun], start: "00:00", end: "00:00"`},
		"--reboot-days=mon --start-time=10pm --end-time=2am": { // Monday before 2, and from 22 on
			`days: [Mon], start: "00:00", end: "02:00"`, `days: [Mon], start: "22:00", end: "00:00"`,
		},
	} {
		if diff := cmp.Diff(want, windowsOf(t, flags)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", flags, diff)
		}
	}
}

func TestWhereADaemonSetRunsIsWhatThePolicySelects(t *testing.T) {
	set := func(pod string) string {
		return "kind: DaemonSet\nmetadata: {name: kured}\nspec: {template: {spec: {" + pod + "containers: [{image: 'ghcr.io/kubereboot/kured:1.23.0@sha256:0', command: [/usr/bin/kured]," +
			" env: [{name: KURED_CONCURRENCY, value: '3'}, {name: KURED_NODE_ID, valueFrom: {}}]}]}}}\n"
	}
	for pod, want := range map[string]string{
		"": "{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}",
		"nodeSelector: {kubernetes.io/os: linux}, tolerations: [{operator: Exists}], ": "nodeSelector: {matchLabels: {kubernetes.io/os: linux}}",
		"tolerations: [{key: node-role.kubernetes.io/control-plane}], ":                "# It selects all nodes, those of the control plane, too, as kured runs there.",
	} {
		result := converted(t, set(pod))
		if !strings.Contains(result.YAML, want) || !strings.Contains(result.YAML, "maxConcurrent: 3") {
			t.Errorf("%s: want %s in\n%s", pod, want, result.YAML)
		}
	}
}

func TestLabelsOfMachinesAreThoseOfNodesWhereTheyAreCopied(t *testing.T) {
	for selector, want := range map[string]string{
		"cluster.x-k8s.io/cluster-name: a":       "# It selects all nodes",
		"cluster.x-k8s.io/control-plane: ''":     "- {key: node-role.kubernetes.io/control-plane, operator: Exists}",
		"node.cluster.x-k8s.io/pool: a":          "- {key: node.cluster.x-k8s.io/pool, operator: In, values: [a]}",
		"a.node-restriction.kubernetes.io/b: c":  "- {key: a.node-restriction.kubernetes.io/b, operator: In, values: [c]}",
		"cluster.x-k8s.io/deployment-name: pool": "nodes do not get the label cluster.x-k8s.io/deployment-name",
	} {
		text := "kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {selector: {matchLabels: {" + selector + "}}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}\n"
		if got := converted(t, text).YAML; !strings.Contains(got, want) {
			t.Errorf("%s: want %s in\n%s", selector, want, got)
		}
	}
}

// FuzzConvert looks for inputs that stop it, and for those that get more into the result than
// policies that do nothing.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("../../test/migrate/testdata/from/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f", Data: data})
		if len(mistakes) == 0 {
			only(t, result)
		}
	})
}
