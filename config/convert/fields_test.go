package convert

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// field is one of a source, with what is written instead of what the base has.
type field struct {
	// path is that of the source's schema, for people.
	path string
	// key and text are a field of spec, or of the file, and its value in one line.
	key, text string
}

// schema is what a source may be configured with.
type schema struct {
	head string
	base map[string]string
	// carried are the fields that have to change the result or what is said about it.
	carried []field
	// harmless are those that may change nothing, each with the reason.
	harmless []field
}

// schemas are those of the sources that are YAML. Sources: medik8s/node-healthcheck-operator,
// api/v1alpha1/nodehealthcheck_types.go; kubernetes-sigs/cluster-api, api/core/{v1beta1,v1beta2}/
// machinehealthcheck_types.go; medik8s/node-maintenance-operator, api/v1beta1/nodemaintenance_types.go;
// kubernetes/cloud-provider-openstack, pkg/autohealing/{config,healthcheck}.
func schemas() map[string]schema {
	const self = "{kind: SelfNodeRemediationTemplate, name: t}"
	escalation := func(timeout, order, kind string) string {
		return "[{order: " + order + ", timeout: " + timeout + ", remediationTemplate: {kind: " + kind + ", name: t}}, {order: 2, timeout: 5m, remediationTemplate: " + self + "}]"
	}
	nodeCondition := func(params string) string { return "{worker: [{type: NodeCondition, params: {" + params + "}}]}" }
	endpoint := func(params string) string {
		return "{worker: [{type: NodeCondition, params: {}}], master: [{type: Endpoint, params: {" + params + "}}]}"
	}
	return map[string]schema{
		"NodeHealthCheck": {
			head: "kind: NodeHealthCheck\nmetadata: {name: a}\nspec: ",
			base: map[string]string{"selector": "{matchLabels: {a: b}}", "remediationTemplate": self},
			carried: []field{
				{"selector.matchLabels", "selector", "{matchLabels: {a: c}}"},
				{"selector.matchExpressions", "selector", "{matchExpressions: [{key: a, operator: Exists}]}"},
				{"unhealthyConditions[].type", "unhealthyConditions", "[{type: A, status: Unknown, duration: 5m}]"},
				{"unhealthyConditions[].status", "unhealthyConditions", `[{type: Ready, status: "False", duration: 5m}]`},
				{"unhealthyConditions[].duration", "unhealthyConditions", "[{type: Ready, status: Unknown, duration: 6m}]"},
				{"minHealthy", "minHealthy", "90%"},
				{"maxUnhealthy", "maxUnhealthy", "10%"},
				{"stormCooldownDuration", "stormCooldownDuration", "5m"},
				{"remediationTemplate.kind", "remediationTemplate", "{kind: OtherTemplate, name: t}"},
				{"remediationTemplate.name", "remediationTemplate", "{kind: SelfNodeRemediationTemplate, name: other}"},
				{"remediationTemplate.fieldPath", "remediationTemplate", "{kind: SelfNodeRemediationTemplate, name: t, fieldPath: a}"},
				{"pauseRequests", "pauseRequests", "[upgrade]"},
				{"healthyDelay", "healthyDelay", "10m"},
				{"a field of tomorrow", "tomorrow", "true"},
			},
			harmless: []field{
				{"remediationTemplate.apiVersion", "remediationTemplate", "{apiVersion: a/v1, kind: SelfNodeRemediationTemplate, name: t}"},
				{"remediationTemplate.namespace: only where the template is looked for", "remediationTemplate", "{kind: SelfNodeRemediationTemplate, name: t, namespace: n}"},
			},
		},
		"NodeHealthCheck that escalates": {
			head: "kind: NodeHealthCheck\nmetadata: {name: a}\nspec: ",
			base: map[string]string{"escalatingRemediations": escalation("5m", "1", "ATemplate")},
			carried: []field{
				{"escalatingRemediations[].timeout", "escalatingRemediations", "[{order: 1, timeout: 9m, remediationTemplate: " + self + "}]"},
				{"escalatingRemediations[].order", "escalatingRemediations", escalation("5m", "3", "ATemplate")},
				{"escalatingRemediations[].remediationTemplate", "escalatingRemediations", escalation("5m", "1", "BTemplate")},
			},
		},
		"MachineHealthCheck": {
			head: "kind: MachineHealthCheck\nmetadata: {name: a}\nspec: ",
			base: map[string]string{"selector": "{}", "unhealthyConditions": "[{type: Ready, status: Unknown, timeout: 5m}]"},
			carried: []field{
				{"clusterName", "clusterName", "c"},
				{"selector", "selector", "{matchLabels: {node-role.kubernetes.io/a: b}}"},
				{"unhealthyConditions[].type", "unhealthyConditions", "[{type: A, status: Unknown, timeout: 5m}]"},
				{"unhealthyConditions[].status", "unhealthyConditions", `[{type: Ready, status: "False", timeout: 5m}]`},
				{"unhealthyConditions[].timeout", "unhealthyConditions", "[{type: Ready, status: Unknown, timeout: 6m}]"},
				{"a field of tomorrow in a condition", "unhealthyConditions", "[{type: Ready, status: Unknown, timeout: 5m, tomorrow: 1}]"},
				{"unhealthyMachineConditions", "unhealthyMachineConditions", "[{type: A}]"},
				{"maxUnhealthy", "maxUnhealthy", "40%"},
				{"unhealthyRange", "unhealthyRange", "[1-5]"},
				{"nodeStartupTimeout", "nodeStartupTimeout", "10m"},
				{"remediationTemplate", "remediationTemplate", self},
				{"checks.unhealthyNodeConditions", "checks", "{unhealthyNodeConditions: [{type: A, status: Unknown, timeoutSeconds: 5}]}"},
				{"checks.unhealthyMachineConditions", "checks", "{unhealthyMachineConditions: [{type: A}]}"},
				{"checks.nodeStartupTimeoutSeconds", "checks", "{nodeStartupTimeoutSeconds: 5}"},
				{"checks.tomorrow", "checks", "{tomorrow: 5}"},
				{"remediation.triggerIf.unhealthyLessThanOrEqualTo", "remediation", "{triggerIf: {unhealthyLessThanOrEqualTo: 40%}}"},
				{"remediation.triggerIf.unhealthyInRange", "remediation", "{triggerIf: {unhealthyInRange: '[1-5]'}}"},
				{"remediation.triggerIf.tomorrow", "remediation", "{triggerIf: {tomorrow: 1}}"},
				{"remediation.templateRef", "remediation", "{templateRef: " + self + "}"},
				{"remediation.tomorrow", "remediation", "{tomorrow: 1}"},
				{"a field of tomorrow", "tomorrow", "true"},
			},
		},
		"NodeMaintenance": {
			head: "kind: NodeMaintenance\nmetadata: {name: a}\nspec: ",
			base: map[string]string{"nodeName": "b"},
			carried: []field{
				{"nodeName", "nodeName", "c"}, {"reason", "reason", "a disk"}, {"a field of tomorrow", "tomorrow", "true"},
			},
		},
		"SelfNodeRemediationTemplate": {
			head: "kind: NodeHealthCheck\nmetadata: {name: a}\nspec: {remediationTemplate: {kind: SelfNodeRemediationTemplate, name: t}}\n---\n" +
				"kind: SelfNodeRemediationTemplate\nmetadata: {name: t}\nspec: ",
			base: map[string]string{"template": "{spec: {}}"},
			carried: []field{
				{"template.spec.remediationStrategy", "template", "{spec: {remediationStrategy: OutOfServiceTaint}}"},
				{"template.spec.tomorrow", "template", "{spec: {tomorrow: 1}}"},
				{"template.tomorrow", "template", "{spec: {}, tomorrow: 1}"},
				{"a field of tomorrow", "tomorrow", "true"},
			},
			harmless: []field{{"template.spec.remediationStrategy: as without", "template", "{spec: {remediationStrategy: Automatic}}"}},
		},
		"magnum-auto-healer": {
			base: map[string]string{"cluster-name": "a", "healthcheck": "{worker: [{type: NodeCondition, params: {}}], master: [{type: NodeCondition, params: {types: [A]}}]}"},
			carried: []field{
				{"dry-run", "dry-run", "true"},
				{"cloud-provider", "cloud-provider", "openstack"},
				{"openstack", "openstack", "{auth-url: a}"},
				{"master-monitor-enabled", "master-monitor-enabled", "false"},
				{"worker-monitor-enabled", "worker-monitor-enabled", "false"},
				{"check-delay-after-add", "check-delay-after-add", "7m"},
				{"rebuild-delay-after-reboot", "rebuild-delay-after-reboot", "7m"},
				{"healthcheck.master", "healthcheck", "{worker: [{type: NodeCondition, params: {}}], master: [{type: NodeCondition, params: {}}]}"},
				{"healthcheck.worker", "healthcheck", "{master: [{type: NodeCondition, params: {}}]}"},
				{"healthcheck.tomorrow", "healthcheck", "{worker: [{type: NodeCondition, params: {}}], tomorrow: 1}"},
				{"healthcheck.worker[].type", "healthcheck", "{worker: [{type: NodeCondition, params: {}}, {type: Other, params: {}}]}"},
				{"healthcheck.worker[].tomorrow", "healthcheck", "{worker: [{type: NodeCondition, params: {}, tomorrow: 1}]}"},
				{"NodeCondition: types", "healthcheck", nodeCondition("types: [A]")},
				{"NodeCondition: unhealthy-duration", "healthcheck", nodeCondition("unhealthy-duration: 7m")},
				{"NodeCondition: ok-values", "healthcheck", nodeCondition("ok-values: [Unknown]")},
				{"NodeCondition: error-values", "healthcheck", nodeCondition("error-values: [Unknown]")},
				{"NodeCondition: tomorrow", "healthcheck", nodeCondition("tomorrow: 1")},
				{"Endpoint", "healthcheck", endpoint("protocol: http")},
				{"repair-delay-after-add", "repair-delay-after-add", "7m"},
				{"a field of tomorrow", "tomorrow", "true"},
			},
			harmless: []field{
				{"monitor-interval: conditions are watched", "monitor-interval", "7m"},
				{"leader-elect: one of two controllers leads", "leader-elect", "false"},
				{"kubernetes: the cluster is that of the controller", "kubernetes", "{api-host: a, kubeconfig: b}"},
				{"cluster-name: of Magnum", "cluster-name", "b"},
			},
		},
	}
}

// text is the source with a field.
func (s schema) text(key, text string) string {
	fields := maps.Clone(s.base)
	if key != "" {
		fields[key] = text
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, key+": "+fields[key])
	}
	return s.head + "{" + strings.Join(all, ", ") + "}\n"
}

// said is the result, and all that is said about it.
func said(text string) string {
	result, mistakes := Convert(v1alpha1.ModeDryRun, File{Name: "f", Data: []byte(text)})
	all := result.YAML
	for _, n := range slices.Concat(result.Notes, mistakes) {
		all += n.String() + "\n"
	}
	return all
}

// What a source is configured with is carried over, asked about, or said not to be; or it is
// known to matter to nobody here.
func TestNoFieldIsLostWithoutAWord(t *testing.T) {
	for name, s := range schemas() {
		without := said(s.text("", ""))
		if !strings.Contains(without, "nodemend.dev") {
			t.Errorf("%s is not converted:\n%s", name, without)
		}
		for _, f := range s.carried {
			if said(s.text(f.key, f.text)) == without {
				t.Errorf("%s: %s changes nothing, and nobody says so", name, f.path)
			}
		}
		for _, f := range s.harmless {
			if with := said(s.text(f.key, f.text)); with != without {
				t.Errorf("%s: %s is said to change nothing:\n%s", name, f.path, with)
			}
		}
	}
}

// flags are those of programs, each with a value other than its default. Sources:
// kubereboot/kured, cmd/kured/main.go, v1.23; planetlabs/draino, cmd/draino/draino.go.
func flags() map[string]map[string]string {
	return map[string]map[string]string{
		"kured": {
			"alert-filter-match-only": "true", "alert-filter-regexp": "a", "alert-firing-only": "true", "annotate-nodes": "true", "blocking-pod-selector": "a=b",
			"concurrency": "2", "drain-delay": "1m", "drain-grace-period": "7", "drain-pod-selector": "a=b", "drain-timeout": "7m", "ds-name": "a", "ds-namespace": "a",
			"end-time": "7:00", "force-reboot": "true", "lock-annotation": "a", "lock-release-delay": "7m", "lock-ttl": "7m", "log-format": "json",
			"message-template-drain": "a", "message-template-reboot": "a", "message-template-uncordon": "a", "metrics-host": "a", "metrics-port": "1", "node-id": "a",
			"notify-url": "a", "period": "7m", "post-reboot-node-labels": "a=b", "pre-reboot-node-labels": "a=b", "prefer-no-schedule-taint": "a", "prometheus-url": "a",
			"reboot-command": "/bin/a", "reboot-days": "mon", "reboot-delay": "7m", "reboot-method": "signal", "reboot-sentinel": "/a", "reboot-sentinel-command": "a",
			"reboot-signal": "7", "skip-wait-for-delete-timeout": "7", "slack-channel": "a", "slack-hook-url": "a", "slack-username": "a", "start-time": "7:00", "time-zone": "Europe/Berlin",
		},
		"draino": {
			"debug": "", "d": "", "dry-run": "", "drain-buffer": "7m", "evict-daemonset-pods": "", "evict-emptydir-pods": "", "evict-statefulset-pods": "", "evict-unreplicated-pods": "",
			"eviction-headroom": "7m", "kubeconfig": "a", "leader-election-lease-duration": "7m", "leader-election-renew-deadline": "7m", "leader-election-retry-period": "7m",
			"leader-election-token-name": "a", "listen": "a", "master": "a", "max-grace-period": "7m", "namespace": "a", "node-label": "a=b",
			"node-label-expr": "'a' in metadata.labels", "protected-pod-annotation": "a", "skip-drain": "",
		},
	}
}

func TestNoFlagIsLostWithoutAWord(t *testing.T) {
	for _, p := range programs() {
		known := flags()[p.name]
		for flag := range p.rules {
			if _, is := known[flag]; !is {
				t.Errorf("%s has no flag --%s", p.name, flag)
			}
		}
		base := map[string]string{"kured": "kured --start-time=1:00", "draino": "draino A"}[p.name]
		without := said(base + "\n")
		for flag, value := range known {
			text := base + " --" + flag
			if value != "" {
				text += `="` + value + `"`
			}
			switch with := said(text + "\n"); {
			case p.rules[flag].unused && with != without:
				t.Errorf("%s --%s is said to be unused:\n%s", p.name, flag, with)
			case !p.rules[flag].unused && with == without:
				t.Errorf("%s --%s changes nothing, and nobody says so", p.name, flag)
			}
		}
	}
}
