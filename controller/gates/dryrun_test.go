package gates

import (
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestDryRun(t *testing.T) {
	dry := func(changes ...func(*Input)) Input {
		return input(append(changes, func(in *Input) { in.Policy.Spec.Mode = v1alpha1.ModeDryRun })...)
	}
	argv := func(args ...string) func(*Input) {
		return func(in *Input) {
			in.Remediation.Spec.Steps[0] = v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: args}}
		}
	}
	runGate(t, DryRun, []gateTest{
		{name: "enforced", in: input()},
		{name: "enforced by default", in: input(func(in *Input) { in.Policy.Spec.Mode = "" })},
		{name: "no policy", in: input(func(in *Input) { in.Policy = nil })},
		{name: "unit", in: dry(), reason: "DryRun", messages: []string{
			"DryRun: would restart containerd.service now (step 1, attempt 1); to let it, set spec.mode of policy container-runtime to Enforce"}},
		{name: "script", in: dry(atStep(2)), reason: "DryRun", messages: []string{"would run its script now (step 2, attempt 1)"}},
		{name: "reboot", in: dry(atStep(3)), reason: "DryRun", messages: []string{"would cordon and reboot the node (SysRq) now (step 3, attempt 1)"}},
		{name: "command", in: dry(argv("/bin/clean", "--all")), reason: "DryRun", messages: []string{"would run /bin/clean --all now"}},
		{name: "long command", in: dry(argv("/bin/clean", strings.Repeat("ä", 4000))), reason: "DryRun", messages: []string{"ää… now"}},
		{name: "remedy that is not known", in: dry(func(in *Input) { in.Remediation.Spec.Steps[0] = v1alpha1.Step{} }), reason: "DryRun", messages: []string{"would act now"}},
		{name: "mode that is not known", in: input(func(in *Input) { in.Policy.Spec.Mode = "Rehearse" }), reason: "DryRun", messages: []string{"Rehearse: would"}},
	})
}
