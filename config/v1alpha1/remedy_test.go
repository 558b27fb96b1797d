package v1alpha1_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// steps has a step of each remedy, by its name.
func steps() map[string]v1alpha1.Step {
	return map[string]v1alpha1.Step{
		"command":     {Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/mend", "--all"}}},
		"restartUnit": {RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}},
		"reboot":      {Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq, Drain: &v1alpha1.Drain{}}},
		"maintenance": {Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a fan has failed"}},
		"external": {External: &v1alpha1.ExternalRemedy{TemplateRef: v1alpha1.TemplateReference{
			APIVersion: "fence-agents-remediation.medik8s.io/v1alpha1", Kind: "FenceAgentsRemediationTemplate", Name: "bmc",
		}}},
		"replace":                     {Replace: &v1alpha1.ReplaceRemedy{Drain: &v1alpha1.Drain{}}},
		"power cycle":                 {Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}},
		"power cycle that frees pods": {Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: true}},
	}
}

// A remedy that is left out of the list would be one that this version does not know.
func TestEachRemedyOfAStepIsInTheList(t *testing.T) {
	step := reflect.TypeFor[v1alpha1.Step]()
	var fields []string
	for i := range step.NumField() {
		field := step.Field(i)
		if !strings.HasSuffix(field.Type.String(), "Remedy") {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, name)
		var asked v1alpha1.Step
		reflect.ValueOf(&asked).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		if got := asked.Remedy(); got != name {
			t.Errorf("a step with %s has the remedy %q", name, got)
		}
	}
	crd, err := os.ReadFile("../../deploy/chart/crds/nodemend.dev_remedypolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range v1alpha1.Remedies() {
		if !strings.Contains(string(crd), "has(self."+r.Name+")") {
			t.Errorf("the rule of Step that exactly one remedy is required does not name %s", r.Name)
		}
		names = append(names, r.Name)
		if v1alpha1.RemedyNamed(r.Name) != r {
			t.Errorf("%s is not found by its name", r.Name)
		}
	}
	if !reflect.DeepEqual(names, fields) {
		t.Errorf("the remedies are %v, the fields of a step %v", names, fields)
	}
}

func TestARemedyIsWhatItsValueSays(t *testing.T) {
	type traits struct{ disruptive, needsRunner, needsMatch, reboots, final, drains bool }
	for name, want := range map[string]struct {
		traits        traits
		describe, why string
	}{
		"command":     {traits{needsRunner: true, needsMatch: true}, "run /bin/mend --all", "command"},
		"restartUnit": {traits{needsRunner: true, needsMatch: true}, "restart containerd.service", "restartUnit"},
		"reboot": {
			traits{disruptive: true, needsRunner: true, needsMatch: true, reboots: true, drains: true},
			"cordon and drain and reboot the node (SysRq)", "reboot",
		},
		"maintenance": {traits{disruptive: true, final: true}, "cordon the node until it has recovered", "a fan has failed"},
		"power cycle": {
			traits{disruptive: true, needsMatch: true, reboots: true},
			"cordon the node, and switch its power off and on (PowerCycle)", "reboot",
		},
		"power cycle that frees pods": {
			traits{disruptive: true, needsMatch: true, reboots: true},
			"cordon the node, switch its power off, free its pods and volumes, and switch it on (PowerCycle)", "reboot",
		},
		"external": {
			traits{disruptive: true, needsMatch: true},
			"cordon the node, and leave it to a FenceAgentsRemediation of template bmc", "FenceAgentsRemediation",
		},
		"replace": {
			traits{disruptive: true, needsMatch: true, drains: true},
			"cordon and drain the node, and have its machine deleted and replaced by its owner", "its machine is to be replaced",
		},
		"": {traits{needsRunner: true, needsMatch: true}, "act", ""},
	} {
		step := steps()[name]
		got := traits{step.Disruptive(), step.NeedsRunner(), step.NeedsMatch(), step.Reboots(), step.Final(), step.Drain() != nil}
		if got != want.traits {
			t.Errorf("%q: got %+v, want %+v", name, got, want.traits)
		}
		if step.Describe() != want.describe || step.Why() != want.why {
			t.Errorf("%q: got %q, %q; want %q, %q", name, step.Describe(), step.Why(), want.describe, want.why)
		}
	}
}
