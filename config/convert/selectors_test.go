package convert

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// clusterNodes are the labels of nodes: a worker, and control planes of today and of old.
func clusterNodes() map[string]labels.Set {
	return map[string]labels.Set{
		"worker": {"pool": "a", "node.cluster.x-k8s.io/pool": "a"}, "master": {nodeRole: ""}, "old master": {oldNodeRole: ""}, "both": {nodeRole: "", oldNodeRole: ""},
	}
}

// selected returns the nodes that the first object of a result selects.
func selected(t *testing.T, result Result) (names []string) {
	t.Helper()
	var object struct {
		Spec struct {
			NodeSelector struct {
				MatchLabels      map[string]string                 `yaml:"matchLabels"`
				MatchExpressions []metav1.LabelSelectorRequirement `yaml:"matchExpressions"`
			} `yaml:"nodeSelector"`
		} `yaml:"spec"`
	}
	if err := yaml.NewDecoder(strings.NewReader(result.YAML)).Decode(&object); err != nil {
		t.Fatal(err)
	}
	s := object.Spec.NodeSelector
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions})
	if err != nil {
		t.Fatal(err)
	}
	for name, node := range clusterNodes() {
		if selector.Matches(node) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A label that nodes do not have is met by all of them where it is negated.
func TestWhatSelectsMachinesSelectsNoNodesThatItDoesNotMean(t *testing.T) {
	const (
		all, masters, workers, none = "both master old master worker", "both master", "worker", ""
		foreign, role               = "machine.openshift.io/cluster-api-machine-role", "cluster.x-k8s.io/control-plane"
	)
	for expression, want := range map[string]string{
		foreign + ", operator: In, values: [worker]":                              none,
		foreign + ", operator: Exists":                                            none,
		foreign + ", operator: NotIn, values: [master, infra]":                    none,
		foreign + ", operator: DoesNotExist":                                      none,
		"cluster.x-k8s.io/deployment-name, operator: NotIn, values: [gpu]":        none,
		"cluster.x-k8s.io/cluster-name, operator: NotIn, values: [a]":             none,
		"cluster.x-k8s.io/cluster-name, operator: DoesNotExist":                   none,
		"cluster.x-k8s.io/cluster-name, operator: In, values: [a]":                all,
		"cluster.x-k8s.io/cluster-name, operator: Exists":                         all,
		role + ", operator: Exists":                                               masters,
		role + ", operator: DoesNotExist":                                         workers,
		role + ", operator: In, values: ['']":                                     masters,
		role + ", operator: In, values: ['true']":                                 none,
		role + ", operator: NotIn, values: ['']":                                  workers,
		role + ", operator: NotIn, values: ['true']":                              all,
		"node.cluster.x-k8s.io/pool, operator: In, values: [a]":                   workers,
		"node.cluster.x-k8s.io/pool, operator: NotIn, values: [b]":                all,
		role + ", operator: DoesNotExist}, {key: a, operator: DoesNotExist":       none,
		role + ", operator: DoesNotExist}, {key: a, operator: NotIn, values: [b]": none,
		role + ", operator: DoesNotExist}, {key: " + role + ", operator: Exists":  none,
	} {
		text := "kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {selector: {matchExpressions: [{key: " + expression + "}]}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}\n"
		result := converted(t, text)
		if got := strings.Join(selected(t, result), " "); got != want {
			t.Errorf("%s: it selects %q, want %q:\n%s", expression, got, want, result.YAML)
		}
		said := slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.Contains(n.Message, "selects no") })
		if said != (want == none) && !strings.Contains(expression, "}, {key: "+role) {
			t.Errorf("%s: %v", expression, result.Notes)
		}
	}
}

func TestWorkersAreNoControlPlaneOfOld(t *testing.T) {
	for name, text := range map[string]string{
		"magnum-auto-healer": magnumFileWith(""),
		"kured":              kuredSet("", ""),
		"MachineHealthCheck": "kind: MachineHealthCheck\nmetadata: {name: a}\nspec: {selector: {matchExpressions: [{key: cluster.x-k8s.io/control-plane, operator: DoesNotExist}]}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]}\n",
	} {
		if got := selected(t, converted(t, text)); !slices.Equal(got, []string{"worker"}) {
			t.Errorf("%s selects %q", name, got)
		}
	}
}

// kuredSet is a DaemonSet of kured with further fields of its pod, and of its container.
func kuredSet(pod, container string) string {
	return "kind: DaemonSet\nmetadata: {name: kured}\nspec: {template: {spec: {" + pod + "containers: [{image: 'ghcr.io/kubereboot/kured:1.23.0', " + container + "command: [/usr/bin/kured]}]}}}\n"
}

func TestWhereKuredDoesNotRunIsNotSelectedWithoutAWord(t *testing.T) {
	everywhere := "tolerations: [{operator: Exists}], "
	for name, test := range map[string]struct {
		pod      string
		selected string
		question bool
	}{
		"everywhere":            {everywhere, "both master old master worker", false},
		"no toleration":         {"", "worker", true},
		"one of the control":    {"tolerations: [{key: " + nodeRole + ", operator: Exists}], ", "both master old master worker", true},
		"all of an effect":      {"tolerations: [{operator: Exists, effect: NoExecute}], ", "worker", true},
		"all of each effect":    {"tolerations: [{operator: Exists, effect: NoExecute}, {operator: Exists, effect: NoSchedule}], ", "both master old master worker", false},
		"an affinity":           {everywhere + "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: NotIn, values: [b]}]}]}}}, ", "", false},
		"an affinity to nobody": {everywhere + "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}, ", "both master old master worker", false},
	} {
		result := converted(t, kuredSet(test.pod, ""))
		if got := strings.Join(selected(t, result), " "); got != test.selected {
			t.Errorf("%s: it selects %q, want %q", name, got, test.selected)
		}
		if asked := slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Kind == Question && strings.Contains(n.Message, "other taints") }); asked != test.question {
			t.Errorf("%s: %v", name, result.Notes)
		}
		if lost := slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.Contains(n.Message, "selects no node until") }); lost != (test.selected == "") {
			t.Errorf("%s: %v", name, result.Notes)
		}
	}
}
