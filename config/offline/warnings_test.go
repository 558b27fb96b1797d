package offline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// policyText is a policy that nothing is said about, with a name, further fields, an entry
// of match and fields of its step.
func policyText(name, fields, match, step string) string {
	return "apiVersion: nodemend.dev/v1alpha1\nkind: RemedyPolicy\nmetadata: {name: " + name + "}\nspec:\n" +
		"  nodeSelector: {matchLabels: {pool: workers}}\n" + fields +
		"  match: [{" + match + "}]\n  steps: [{command: {argv: [/bin/true]}" + step + "}]\n---\n"
}

const (
	ready  = `type: Ready, status: "False"`
	budget = "apiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: b}\nspec: {"
)

func TestWarnings(t *testing.T) {
	validator := load(t)
	const template = "apiVersion: nodemend.dev/v1alpha1\nkind: NodemendRemediationTemplate\nmetadata: {name: t, namespace: default}\nspec: {template: {spec: {policy: p}}}\n"
	for name, test := range map[string]struct {
		text string
		want []string // warnings, from the field on
	}{
		"nothing": {policyText("p", "", ready, ""), nil},
		"a type nearly known": {
			policyText("p", "", `type: PLEGUnheathly, status: "True"`, ""),
			[]string{"6:18 spec.match[0].type: nothing known reports PLEGUnheathly; did you mean PLEGUnhealthy?"},
		},
		"a type that nothing reports": {
			policyText("p", "", `type: Flooded, status: "True"`, ""),
			[]string{"6:18 spec.match[0].type: neither Kubernetes nor a check of Nodemend nor a file that node-problem-detector comes with reports Flooded: make sure that something on the nodes does"},
		},
		"a type that nothing reports, and nobody knows what is healthy": {
			policyText("p", "", `type: Flooded, status: "Unknown"`, ""),
			[]string{
				"6:18 spec.match[0].type: neither Kubernetes nor a check of Nodemend nor a file that node-problem-detector comes with reports Flooded: make sure that something on the nodes does",
				`6:35 spec.match[0].status: "False" counts as healthy, as in conditions of node-problem-detector; if "True" is, add healthy: "True"`,
			},
		},
		"a type that nothing reports, and what is healthy": {
			policyText("p", "", `type: Dry, status: "Unknown", healthy: "True"`, ""),
			[]string{"6:18 spec.match[0].type: neither Kubernetes nor a check of Nodemend nor a file that node-problem-detector comes with reports Dry: make sure that something on the nodes does"},
		},
		"a time to verify that the check does not make": {
			policyText("p", "", `type: HardwareFailure, status: "True"`, ", verifyTimeout: 9m"),
			[]string{"7:57 spec.steps[0].verifyTimeout: 9m is shorter than two runs of the check of HardwareFailure, 5m apart: the next step may start although this one has helped"},
		},
		"a time to verify left out": {
			policyText("p", "", `type: HardwareFailure, status: "True"`, ""),
			[]string{"7:11 spec.steps[0].verifyTimeout: 2m is shorter than two runs of the check of HardwareFailure, 5m apart: the next step may start although this one has helped"},
		},
		"a time in which SelfNodeRemediation can't be done": {
			strings.Replace(policyText("p", "", ready, ", timeout: 3m"), "command: {argv: [/bin/true]}",
				"external: {templateRef: {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, namespace: medik8s, name: automatic}}", 1),
			[]string{"7:175 spec.steps[0].timeout: 3m may be over before SelfNodeRemediation takes the node for rebooted: 3m in a small cluster, 5m with 1,000 nodes; then the node boots"},
		},
		"an age at which a condition is ignored before all is done": {
			policyText("p", "", ready+", for: 30m, ignoreAfter: 2h", ", attempts: 2, timeout: 30m, verifyTimeout: 20m"),
			[]string{"6:65 spec.match[0].ignoreAfter: 2h may be over before all steps are done, which take up to 100m after for: no step is taken after that"},
		},
		"debounce of a check of ours": {
			policyText("p", "", `type: HardwareFailure, status: "True", for: 5m, debounce: 2m`, ", verifyTimeout: 10m"),
			[]string{"6:70 spec.match[0].debounce: is not needed: the check of HardwareFailure, which runs every 5m, has thresholds of its own and sets lastTransitionTime only when the status changes"},
		},
		"a debounce that is longer than for": {
			policyText("p", "", `type: KernelDeadlock, status: "True", for: 1m, debounce: 2m`, ""),
			[]string{"6:69 spec.match[0].debounce: 2m is longer than for, 1m: two reports of the fault are enough to start, whatever was between them"},
		},
		"an age that is enough": {policyText("p", "", ready+", for: 20m, ignoreAfter: 2h", ", attempts: 2, timeout: 30m, verifyTimeout: 20m"), nil},
		"long times": {
			policyText("p", "  cooldown: 25h\n  maxRemediations: {count: 1, per: 720h}\n", ready+", for: 24h", ", timeout: 26h"),
			[]string{
				"6:13 spec.cooldown: 25h is longer than a day: is that meant?",
				"9:51 spec.steps[0].timeout: 26h is longer than a day: is that meant?",
			},
		},
		"never":           {policyText("p", "  maxRemediations: {count: 0, per: 24h}\n", ready, ""), []string{"6:28 spec.maxRemediations.count: 0 allows no remediation to act, ever"}},
		"a closed budget": {budget + "maxConcurrent: 0}", []string{"4:23 spec.maxConcurrent: 0 lets no action through, ever; the off switch is spec.paused"}},
		"a paused budget": {budget + "paused: true}", nil},
		"asked for":       {strings.Replace(policyText("p", "", ready, ""), "  match: [{"+ready+"}]\n", "", 1) + template, nil},
		"match forgotten": {strings.Replace(policyText("p", "", ready, ""), "  match: [{"+ready+"}]\n", "", 1), []string{"4:1 spec.match: left out: no condition starts the policy, only a NodemendRemediation of another program does"}},
		"asked for, and for ever": {
			strings.Replace(strings.Replace(policyText("p", "", ready, ""), "  match: [{"+ready+"}]\n", "", 1), "command: {argv: [/bin/true]}", "maintenance: {reason: r}", 1) + template,
			[]string{"6:25 spec.steps[0].maintenance: lasts until whoever has asked finds the node healthy, and never tells that all was in vain: leave it out where another remediator is to follow"},
		},
		"none unavailable":      {budget + "maxUnavailable: 0%}", []string{"4:24 spec.maxUnavailable: 0 lets no reboot and no maintenance through, ever"}},
		"all healthy":           {budget + "minHealthy: 100%}", []string{"4:20 spec.minHealthy: 100% lets no reboot and no maintenance through, ever: the node that needs it is not healthy"}},
		"no reboot":             {budget + "maxReboots: {count: 0, per: 1h}}", []string{"4:28 spec.maxReboots.count: 0 lets no reboot through, ever"}},
		"a long cooldown":       {budget + "stormCooldown: 36h}", []string{"4:23 spec.stormCooldown: 36h is longer than a day: is that meant?"}},
		"overlap":               {policyText("a", "", ready, "") + policyText("b", "", ready+", reasons: [X]", ""), []string{"14:11 spec.match[0]: Ready=False starts the policy a in f:6, too, on the same nodes: both would act, one after the other; give them different nodeSelectors or reasons"}},
		"overlap of rehearsals": {policyText("a", "  mode: DryRun\n", ready, "") + policyText("b", "  mode: DryRun\n", ready, ""), []string{"16:11 spec.match[0]: Ready=False starts the policy a in f:7, too, on the same nodes: in mode Enforce both would act, one after the other; give them different nodeSelectors or reasons"}},
		"another status":        {policyText("a", "", ready, "") + policyText("b", "", "type: Ready, status: Unknown", ""), nil},
		"another reason":        {policyText("a", "", ready+", reasons: [Y]", "") + policyText("b", "", ready+", reasons: [X]", ""), nil},
		"other nodes":           {policyText("a", "", ready, "") + strings.Replace(policyText("b", "", ready, ""), "workers", "storage", 1), nil},
		"nodes without":         {policyText("a", "", ready, "") + strings.Replace(policyText("b", "", ready, ""), "matchLabels: {pool: workers}", "matchExpressions: [{key: pool, operator: DoesNotExist}]", 1), nil},
		"nodes but those":       {policyText("a", "", ready, "") + strings.Replace(policyText("b", "", ready, ""), "matchLabels: {pool: workers}", "matchExpressions: [{key: pool, operator: NotIn, values: [workers]}]", 1), nil},
		"errors come first":     {policyText("p", "  cooldown: 25h\n", ready, ", attempts: 0"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range validator.Check(t.Context(), File{Name: "f", Data: []byte(test.text)}).Warnings {
				place, _, _ := strings.Cut(strings.TrimPrefix(w.String(), "f:"), ": ")
				got = append(got, place+" "+w.Field+": "+w.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
