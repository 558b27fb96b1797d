package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func noted(result Result, kind NoteKind, text string) bool {
	return slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Kind == kind && strings.Contains(n.String(), text) })
}

// NodeHealthCheck and MachineHealthCheck do nothing while too many nodes are unhealthy, as when a
// switch fails. minHealthy does not hold the reboot of a node that is down.
func TestALimitThatStopsAllIsSaidNotToStopReboots(t *testing.T) {
	const stop = "does nothing while too many nodes are unhealthy"
	nhc := func(kind, limit string) string {
		return "kind: NodeHealthCheck\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}, remediationTemplate: {kind: " + kind + "Template, name: t}" + limit + "}\n"
	}
	mhc := func(template, limit string) string {
		return "kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {" + template + "unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]" + limit + "}\n"
	}
	const reboots, asks = "SelfNodeRemediation", "NoRemediation" // of no group
	const template = "remediationTemplate: {kind: SelfNodeRemediationTemplate, name: t}, "
	for text, want := range map[string]struct {
		noted bool
		yaml  string
	}{
		nhc(reboots, ""):                                  {true, "maxConcurrent: 1 "},
		nhc(reboots, ", minHealthy: 51%"):                 {true, "maxConcurrent: 1 "},
		nhc(reboots, ", minHealthy: 5"):                   {true, "maxConcurrent: 1 "},
		nhc(reboots, ", minHealthy: 0"):                   {false, "maxConcurrent: 1 "},
		nhc(reboots, ", maxUnhealthy: 20%"):               {true, "maxConcurrent: 1 "},
		nhc(reboots, ", maxUnhealthy: 3"):                 {true, "maxConcurrent: 1 "},
		nhc(reboots, ", maxUnhealthy: 0"):                 {false, "maxConcurrent: 0 "},
		nhc(reboots, ", maxUnhealthy: 100%"):              {false, "maxConcurrent: 1 "},
		nhc(reboots, ", minHealthy: 51%, concurrency: 4"): {true, "maxConcurrent: 4 "},
		nhc(asks, ", minHealthy: 51%"):                    {false, "maxConcurrent: 49% "},
		nhc(asks, ", minHealthy: 5"):                      {false, "maxConcurrent: 1 "},
		nhc(asks, ", maxUnhealthy: 20%"):                  {false, "maxConcurrent: 20% "},
		nhc(asks, ", maxUnhealthy: 3"):                    {true, "maxConcurrent: 3 "},
		mhc(template, ", maxUnhealthy: 40%"):              {true, "maxConcurrent: 1 "},
		mhc(template, ", maxUnhealthy: 3"):                {true, "maxConcurrent: 1 "},
		mhc(template, ", unhealthyRange: '[1-5]'"):        {true, "maxConcurrent: 1 "},
		mhc(template, ""):                                 {false, "maxConcurrent: 1 "},
		mhc("", ", maxUnhealthy: 40%"):                    {false, "maxConcurrent: 40% "},
		mhc("", ", maxUnhealthy: 3"):                      {true, "maxConcurrent: 3 "},
		mhc("", ", unhealthyRange: '[1-5]'"):              {true, "maxConcurrent: 5 "},
	} {
		result := converted(t, text)
		if noted(result, Lost, stop) != want.noted || !strings.Contains(result.YAML, want.yaml) {
			t.Errorf("%s: want %+v:\n%v\n%s", text, want, result.Notes, result.YAML)
		}
	}
}

func TestWhatHoldsTheOriginalFromOutsideIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		healthCheck(""):                                    "f:4: spec: not carried over: on OpenShift NodeHealthCheck does nothing during an upgrade; here steps that are not disruptive go on. Before one: kubectl nodemend pause budget/a",
		"openstack: {}\n" + magnumFileWith(""):             "f:1: openstack: not carried over: nobody asks Magnum before a reboot: it repairs nothing without the cluster's label auto_healing_enabled",
		"cloud-provider: openstack\n" + magnumFileWith(""): "cloud-provider: not carried over: nobody asks Magnum before a reboot",
	} {
		if result := converted(t, text); !noted(result, Lost, want) {
			t.Errorf("got %v, want %s", result.Notes, want)
		}
	}
}

func TestAProgramWithoutReplicasBecomesAPolicyThatActsOnNothing(t *testing.T) {
	const draino = "kind: Deployment\nmetadata: {name: a}\nspec: {%stemplate: {spec: {containers: [{name: a, image: planetlabs/draino, args: [--evict-statefulset-pods, A]}]}}}\n"
	for replicas, want := range map[string]string{
		"":              "mode: Enforce",
		"replicas: 1, ": "mode: Enforce",
		"replicas: 0, ": "# as the original: it has no replicas",
	} {
		result, mistakes := Convert(v1alpha1.ModeEnforce, File{Name: "f", Data: fmt.Appendf(nil, draino, replicas)})
		if !strings.Contains(result.YAML, want) || len(mistakes) > 0 {
			t.Errorf("%swant %s: %v\n%s", replicas, want, mistakes, result.YAML)
		}
	}
}

// draino takes a label that is not there for an empty one.
func TestANodeWithoutALabelIsNoneWhoseLabelHasAValue(t *testing.T) {
	result := converted(t, "draino --node-label-expr=\"metadata.labels.a != ''\" A\n")
	if !strings.Contains(result.YAML, "{key: a, operator: Exists}") {
		t.Error(result.YAML)
	}
}

func TestWhatTheEnvironmentOfKuredSetsIsKnownOrAMistake(t *testing.T) {
	valueFrom := func(name string) string {
		return "env: [{name: " + name + ", valueFrom: {configMapKeyRef: {name: a, key: b}}}], "
	}
	for container, want := range map[string]string{
		"envFrom: [{configMapRef: {name: kured}}], ":                                                    "envFrom: expected KURED_… in env, with its value",
		"envFrom: [{prefix: KURED_START_, configMapRef: {name: kured}}], ":                              "envFrom: expected KURED_… in env",
		"envFrom: [{prefix: PROXY_, configMapRef: {name: kured}}], ":                                    "",
		valueFrom("KURED_START_TIME"):                                                                   "f:3: --start-time: expected the value itself",
		valueFrom("KURED_BLOCKING_POD_SELECTOR"):                                                        "--blocking-pod-selector: expected the value itself",
		valueFrom("KURED_DRAIN_POD_SELECTOR"):                                                           "--drain-pod-selector: expected the value itself",
		valueFrom("KURED_REBOOT_DAYS"):                                                                  "--reboot-days: expected the value itself",
		valueFrom("KURED_PROMETHEUS_URL"):                                                               "--prometheus-url: not carried over: alerts",
		valueFrom("KURED_NOTIFY_URL"):                                                                   "--notify-url: not carried over: nobody is notified",
		valueFrom("KURED_NODE_ID"):                                                                      "",
		valueFrom("NODE") + "args: [--node-id=$(NODE)], ":                                               "",
		valueFrom("START") + "args: [--start-time=$(START)], ":                                          "--start-time: expected the value itself",
		valueFrom("START") + "args: [--start-time, $(START)], ":                                         "--start-time: expected the value itself",
		"env: [{name: A, value: x}, {name: B, value: $(A)y}], args: [--blocking-pod-selector=a=$(B)], ": "vetoedBy: {matchLabels: {a: xy}}",
		"args: [--blocking-pod-selector=a=$$(B)], ":                                                     "--blocking-pod-selector: expected a selector of labels",
		"env: [{name: KURED_START_TIME, value: '9:00'}], args: [--start-time=22:00], ":                  `--start-time: which is meant: the flag says "22:00". What is here has the environment`,
		"env: [{name: KURED_START_TIME, value: '9:00'}], args: [--start-time=9:00], ":                   "",
	} {
		text := kuredSet("tolerations: [{operator: Exists}], ", container)
		result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f", Data: []byte(text)})
		all := result.YAML
		for _, n := range slices.Concat(mistakes, result.Notes) {
			all += n.String() + "\n"
		}
		extra := len(mistakes) > 0 || slices.ContainsFunc(result.Notes, func(n Note) bool { return !strings.HasPrefix(n.Field, "--reboot-sentinel") })
		if !strings.Contains(all, want) || want == "" && extra {
			t.Errorf("%s: got\n%s\nwant %q", container, all, want)
		}
	}
}

func TestOnlyQuotesAroundAValueAreLeftOut(t *testing.T) {
	for flags, want := range map[string]string{
		`'--reboot-sentinel-command=sh -c "! needs-restarting --reboothint"'`: `"if sh -c \"! needs-restarting --reboothint\"; then echo`,
		`'--reboot-sentinel-command="a"'`:                                     `"if \"a\"; then echo`,
		`'--reboot-sentinel="/a b"'`:                                          `test -e '/a b'`,
		`"--start-time='9:00'"`:                                               `start: "09:00"`,
		`'--blocking-pod-selector="a=b"'`:                                     "vetoedBy: {matchLabels: {a: b}}",
	} {
		if result := converted(t, "kured "+flags+"\n"); !strings.Contains(result.YAML, want) {
			t.Errorf("%s: want %s in\n%s", flags, want, result.YAML)
		}
	}
	for text, want := range map[string]string{`"a"`: "a", `'a'`: "a", `"a`: `"a`, `a"`: `a"`, `"a" in b && "c"`: `"a" in b && "c"`, `"`: `"`, `""`: "", "": "", `'a"`: `'a"`} {
		if got := unquoted(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// YAML's own order: what is written wins, then the first of what is merged.
func TestMergedFieldsAreThoseOfYAML(t *testing.T) {
	const check = "kind: NodeHealthCheck\nmetadata: {name: a}\n"
	const rest = "remediationTemplate: {kind: ATemplate, name: t}"
	for text, want := range map[string]string{
		check + "x: &a {minHealthy: 10%}\nspec: {<<: *a, minHealthy: 90%, " + rest + "}\n":                                                "minHealthy: 90%",
		check + "x: &a {minHealthy: 10%}\nspec: {minHealthy: 90%, <<: *a, " + rest + "}\n":                                                "minHealthy: 90%",
		check + "x: &a {minHealthy: 10%}\nspec: {<<: *a, " + rest + "}\n":                                                                 "minHealthy: 10%",
		check + "x: &a {healthyDelay: 7m}\ny: &b {minHealthy: 80%, healthyDelay: 9m}\nspec: {<<: [*a, *b], " + rest + "}\n":               "minHealthy: 80%",
		check + "x: &a {healthyDelay: 7m}\ny: &b {minHealthy: 80%, healthyDelay: 9m}\nspec: {<<: [*b, *a], " + rest + "}\n":               "healthyFor: 9m",
		check + "x: &a {<<: &b {minHealthy: 70%}}\nspec: {<<: *a, " + rest + "}\n":                                                        "minHealthy: 70%",
		check + "x: &a {minHealthy: 60%, tomorrow: 1}\nspec: {<<: *a, " + rest + "}\n":                                                    "tomorrow: NodeHealthCheck has no such field",
		check + "x: &s {minHealthy: 60%, " + rest + "}\nspec: *s\n---\nkind: NodeMaintenance\nmetadata: {name: a}\nspec: {nodeName: b}\n": "minHealthy: 60%",
		check + "x: &c [{type: A, status: Unknown, duration: 5m}]\nspec: {unhealthyConditions: *c, " + rest + "}\n":                       "{type: A, status: Unknown, for: 5m}",
		"cluster-name: a\nx: &p {unhealthy-duration: 7m}\nhealthcheck: {worker: [{type: NodeCondition, params: {<<: *p}}]}\n":             "for: 7m",
	} {
		result := converted(t, text)
		if !strings.Contains(strings.ReplaceAll(result.YAML, "spec.", ""), want) {
			t.Errorf("%s: want %s in\n%s", text, want, result.YAML)
		}
		if noted(result, Lost, "minHealthy: NodeHealthCheck has no such field") {
			t.Errorf("%s: %v", text, result.Notes)
		}
	}
	// What one object uses of an anchor, another one does not.
	result := converted(t, "kind: NodeMaintenance\nmetadata: {name: a}\nspec: &a {nodeName: b, tomorrow: 1}\n---\n")
	if !noted(result, Lost, "tomorrow") {
		t.Error(result.Notes)
	}
}

func TestChecksOfSeveralClustersAreAskedAbout(t *testing.T) {
	check := func(cluster string) string {
		return "kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {clusterName: " + cluster + ", unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}\n"
	}
	one := converted(t, check("a")+"---\n"+check("a"))
	if noted(one, Question, "clusters") || !strings.Contains(one.YAML, "# It is of the cluster a: apply it there") {
		t.Errorf("%v\n%s", one.Notes, one.YAML)
	}
	two := converted(t, check("a")+"---\n"+check("b"))
	for _, name := range []string{"a", "b"} {
		if !noted(two, Question, "these files have MachineHealthChecks of 2 clusters: apply it to no other one than "+name) {
			t.Errorf("%s: %v", name, two.Notes)
		}
	}
}

func TestWhatIsBeingDeletedIsNotConverted(t *testing.T) {
	for _, text := range []string{
		"kind: NodeMaintenance\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}\nspec: {nodeName: b}\n",
		strings.Replace(healthCheck(""), "{name: a}", "{name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}", 1),
	} {
		if result := converted(t, text); result.YAML != "" || !noted(result, Lost, "metadata.deletionTimestamp: not carried over: this Node") {
			t.Errorf("%v\n%s", result.Notes, result.YAML)
		}
	}
	if result := converted(t, "kind: NodeMaintenance\nmetadata: {name: a}\nspec: {nodeName: b}\n"); !strings.Contains(result.YAML, "# It acts as soon as it is applied") {
		t.Error(result.YAML)
	}
}

// The API of NodeHealthCheck takes it for left out.
func TestAnEmptyEscalationIsNone(t *testing.T) {
	if result := converted(t, healthCheck("  escalatingRemediations: []\n")); result.Policies != 1 {
		t.Error(result.Notes)
	}
	_, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f", Data: []byte(strings.Replace(healthCheck("  escalatingRemediations: []\n"), "remediationTemplate: {kind: FenceAgentsRemediationTemplate, name: t}", "minHealthy: 1", 1))})
	if len(mistakes) == 0 {
		t.Error("it would do nothing, and is converted")
	}
}
