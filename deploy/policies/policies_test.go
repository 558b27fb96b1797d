// Package policies_test tests the policies in this directory as far as that needs no API
// server; test/sim has the rest.
package policies_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/checks/clock"
	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/checks/drives"
	"github.com/nodemend/nodemend/checks/exhaustion"
	"github.com/nodemend/nodemend/checks/filesystem"
	"github.com/nodemend/nodemend/checks/gpu"
	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/checks/kubelet"
	"github.com/nodemend/nodemend/checks/memory"
	"github.com/nodemend/nodemend/checks/network"
	"github.com/nodemend/nodemend/checks/pleg"
	"github.com/nodemend/nodemend/checks/services"
	"github.com/nodemend/nodemend/checks/systemlog"
	"github.com/nodemend/nodemend/checks/tasks"
	"github.com/nodemend/nodemend/config/v1alpha1"
)

// anyReason stands for reasons that a test does not know.
const anyReason = "*"

func TestEveryPolicyStartsInDryRun(t *testing.T) {
	for name, policy := range policies(t) {
		if policy.Spec.Mode != v1alpha1.ModeDryRun {
			t.Errorf("%s has mode %q, want DryRun: who applies it wants to see first what it would do", name, policy.Spec.Mode)
		}
	}
}

func TestEveryPolicyHasTheNameOfItsFile(t *testing.T) {
	for name, policy := range policies(t) {
		if policy.Name != name {
			t.Errorf("%s.yaml has a policy of the name %s", name, policy.Name)
		}
	}
}

// Nobody reports anything of a node of another system, and no runner acts there: it would only
// be cordoned.
func TestEveryPolicyIsForLinux(t *testing.T) {
	for name, policy := range policies(t) {
		if s := policy.Spec.NodeSelector; s == nil || s.MatchLabels[corev1.LabelOSStable] != "linux" {
			t.Errorf("%s selects nodes of any operating system, want nodeSelector: {matchLabels: {%s: linux}}", name, corev1.LabelOSStable)
		}
	}
}

// A drain holds its permits until it has ended or its timeout is over, and the budget that comes
// with the chart has one.
func TestNoDrainKeepsOthersWaitingForLong(t *testing.T) {
	const longest = 30 * time.Minute
	for name, policy := range policies(t) {
		for i := range policy.Spec.Steps {
			drain := policy.Spec.Steps[i].Drain()
			if drain != nil && (drain.Timeout.Duration == 0 || drain.Timeout.Duration > longest) { // left out: an hour
				t.Errorf("step %d of %s drains for %s, want a timeout of %s at most: with onTimeout Wait it goes on without a permit", i+1, name, drain.Timeout, longest)
			}
		}
	}
}

// A drain leaves pods of DaemonSets, the kubelet and the runtime, and the pods take their
// connections with them; a restart of a time service brings no servers back.
func TestNoPolicyActsOnWhatItCannotCure(t *testing.T) {
	incurable := map[string][]string{
		exhaustion.ConditionType: {exhaustion.ReasonInotify, exhaustion.ReasonOpenFiles, exhaustion.ReasonTasks, exhaustion.ReasonConntrack},
		clock.ConditionType:      {clock.ReasonNotSynchronised},
	}
	for name, policy := range policies(t) {
		for _, m := range policy.Spec.Match {
			for _, reason := range incurable[m.Type] {
				if len(m.Reasons) == 0 || slices.Contains(m.Reasons, reason) {
					t.Errorf("%s acts on %s", name, reason)
				}
			}
		}
	}
}

// A condition that nobody sets is never clear, so its policy would never end.
func TestEveryConditionAndReasonIsSetBySomebody(t *testing.T) {
	known := map[string][]string{
		containerruntime.ConditionType: {anyReason},
		hardware.ConditionType:         {anyReason},
		exhaustion.ConditionType:       {exhaustion.ReasonProcesses, exhaustion.ReasonFileHandles},
		tasks.ConditionType:            {tasks.ReasonBlocked},
		network.ConditionType:          {network.ReasonCarrierLost, network.ReasonFlapping, network.ReasonErrors},
		memory.ConditionType:           {memory.ReasonUncorrected, memory.ReasonNotOffline},
		drives.ConditionType: {
			drives.ReasonFailed, drives.ReasonArrayFailed, drives.ReasonReadOnly, drives.ReasonFailing, drives.ReasonHung,
			drives.ReasonMissing, drives.ReasonMedia, drives.ReasonErrors,
		},
		gpu.ConditionType:      {gpu.ReasonFellOff, gpu.ReasonMissing, gpu.ReasonReboot, gpu.ReasonReset, gpu.ReasonNotAnswering},
		clock.ConditionType:    {clock.ReasonOff, clock.ReasonServiceDown},
		services.ConditionType: {services.ReasonKubeProxyGone, services.ReasonKubeProxyTimeout, services.ReasonKubeProxyStale},
		filesystem.ConditionType: {
			filesystem.ReasonReadOnly, filesystem.ReasonFailed, filesystem.ReasonWriteFailed, filesystem.ReasonHung,
		},
		pleg.ConditionType: {pleg.ReasonRelistOutdated, pleg.ReasonNeverRelisted, pleg.ReasonReportedByKubelet, pleg.ReasonRuntimeStalled},
		kubelet.ConditionType: {
			kubelet.ReasonConnectionRefused, kubelet.ReasonUnitFailed, kubelet.ReasonConnectionLost, kubelet.ReasonHealthzTimeout,
			kubelet.ReasonHealthzFailed, kubelet.ReasonSyncLoopFailed, kubelet.ReasonRestarting,
		},
		string(corev1.NodeReady):        {anyReason},
		string(corev1.NodeDiskPressure): {anyReason},
	}
	for _, file := range []string{"kernel-monitor.json", "readonly-monitor.json"} {
		for _, condition := range shippedConditions(t, file) {
			known[condition] = []string{anyReason}
		}
	}
	for _, name := range systemlog.Builtins() {
		rules, err := systemlog.Load(systemlog.BuiltinPrefix + name)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(known, rules.Reasons())
	}
	for name, policy := range policies(t) {
		for _, m := range policy.Spec.Match {
			reasons, set := known[m.Type]
			if !set {
				t.Errorf("%s matches %s, which nobody sets; conditions are %v", name, m.Type, slices.Sorted(maps.Keys(known)))
			}
			for _, reason := range m.Reasons {
				if !slices.Contains(reasons, reason) {
					t.Errorf("%s matches %s for %s, which is none of its reasons %v", name, m.Type, reason, reasons)
				}
			}
		}
	}
}

// What a policy leaves out must not count as time for what it lists: the detector begins anew where
// a milder reason becomes another one.
func TestAPolicyLeavesOutJustTheMilderReasons(t *testing.T) {
	milder := map[string][]string{}
	for _, kind := range detector.Kinds() {
		milder[kind.ConditionType] = kind.Milder
	}
	for name, policy := range policies(t) {
		for _, m := range policy.Spec.Match {
			for _, reason := range m.Reasons {
				if slices.Contains(milder[m.Type], reason) != slices.Contains(milder[m.Type], m.Reasons[0]) {
					t.Errorf("%s matches %s for %v, of which only some are milder ones %v", name, m.Type, m.Reasons, milder[m.Type])
				}
			}
		}
	}
}

// gentleEnd returns when the gentle steps of a policy that are taken at once are over at
// the latest, from the moment at which its first condition became true.
func gentleEnd(policy v1alpha1.RemedyPolicy) time.Duration {
	end := policy.Spec.Match[0].For.Duration
	for _, step := range policy.Spec.Steps {
		if !step.Disruptive() {
			end += time.Duration(max(step.Attempts, 1)) * (step.Timeout.Duration + step.VerifyTimeout.Duration)
		}
	}
	return end
}

// The numbers of docs/policies.md.
func TestTheLastResortComesAfterTheGentleStepsOfTheOthers(t *testing.T) {
	all := policies(t)
	const unknownAfter = 50 * time.Second // the node controller's grace period
	lastResort := all["node-not-ready"].Spec.Match
	unknown, notReady := lastResort[0].For.Duration, lastResort[1].For.Duration
	for name, want := range map[string]struct{ end, starts time.Duration }{
		"container-runtime": {8 * time.Minute, notReady},
		"pleg":              {13*time.Minute + 30*time.Second, notReady},
		"kubelet":           {6 * time.Minute, unknown + unknownAfter},
	} {
		if end := gentleEnd(all[name]); end != want.end {
			t.Errorf("the gentle steps of %s are over after %s, want %s as the comments say", name, end, want.end)
		}
		if want.starts <= want.end {
			t.Errorf("node-not-ready starts after %s, before the gentle steps of %s are over (%s)", want.starts, name, want.end)
		}
	}
}

// policies returns all policies by the names of their files.
func policies(t *testing.T) map[string]v1alpha1.RemedyPolicy {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	all := map[string]v1alpha1.RemedyPolicy{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var policy v1alpha1.RemedyPolicy
		if err := yaml.UnmarshalStrict(data, &policy); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(file, ".yaml")] = policy
	}
	return all
}

// shippedConditions returns the conditions that a configuration of node-problem-detector
// sets, which its module ships.
func shippedConditions(t *testing.T, file string) []string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Fatalf("finding node-problem-detector: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config", file))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Rules []struct{ Condition string }
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var conditions []string
	for _, rule := range config.Rules {
		if rule.Condition != "" {
			conditions = append(conditions, rule.Condition)
		}
	}
	return conditions
}
