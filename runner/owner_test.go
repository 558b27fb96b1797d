//go:build integration

package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
)

func TestTheOwnersFileIsReadBeforeEachActionAndWins(t *testing.T) {
	f := newFixture(t)
	f.policy = f.newPolicy(f.appends("first"), f.appends("second"))
	own, write := f.owned()
	f.start(nil, own)
	const veto = runnerconfig.Path
	for _, test := range []struct {
		content, reason, message string
		executions               int
	}{
		{"commands: {deny: [/bin/sh]}\n", v1alpha1.ReasonRefused, "commands.deny of " + veto + " has /bin/sh", 0},
		{"commands: {allow: []}\n", v1alpha1.ReasonRefused, "commands.allow of " + veto, 0},
		{"commands: {denny: []}\n", v1alpha1.ReasonRefused, "line 1: commands.denny: is not known", 0},
		{"{}\n", v1alpha1.ReasonSucceeded, "exit status 0", 1},
	} {
		f.must(write(test.content))
		got := f.expect(f.newAction(0), test.reason, test.executions)
		if message := got.Finished().Message; !strings.Contains(message, test.message) {
			t.Errorf("with %q the message is %q, want %q in it", test.content, message, test.message)
		}
		if test.executions == 0 && got.Status.Claim != nil {
			t.Errorf("with %q it was claimed", test.content)
		}
	}
}

// Others use the same host, so only a program of this test is denied, and at once.
func TestTheOwnersFileIsThatOfTheHostHoweverItCameThere(t *testing.T) {
	f := newFixture(t)
	r, host := newCrashRunner(f)
	f.must(os.WriteFile(filepath.Join(r.Dir, "program"), []byte("#!/bin/sh\n"), 0o755))
	program := "/run/" + filepath.Base(r.Dir) + "/program"
	f.policy.Spec.Steps[0].Command.Argv = []string{program}
	f.must(f.client.Update(f.ctx, f.policy))
	f.start(nil, func(o *runner.Options) { *o = r.options() })
	inHost := func(script string) {
		f.Helper()
		output, err := host.Run(f.ctx, "/bin/sh", "-ec", script)
		if err != nil {
			f.Fatalf("%v: %s", err, output)
		}
	}
	f.Cleanup(func() { _, _ = host.Run(context.WithoutCancel(f.ctx), "rm", "-rf", "/etc/nodemend") })

	f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 0)
	write := "mkdir -p /etc/nodemend; echo 'commands: {deny: [" + program + "]}' >/etc/nodemend.next; mv /etc/nodemend.next /etc/nodemend/runner.yaml"
	inHost(write)
	denied := "commands.deny of /etc/nodemend/runner.yaml has " + program
	if got := f.expect(f.newAction(0), v1alpha1.ReasonRefused, 0); !strings.Contains(got.Finished().Message, denied) {
		t.Errorf("it says %q", got.Finished().Message)
	}
	inHost("rm -r /etc/nodemend")
	f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 0)
	inHost(write) // in another directory of this name
	f.expect(f.newAction(0), v1alpha1.ReasonRefused, 0)
}

func TestARebootThatTheOwnerDeniesIsRefused(t *testing.T) {
	f := newFixture(t)
	f.policy.Spec.Steps[0] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}
	f.must(f.client.Update(f.ctx, f.policy))
	sysrq := filepath.Join(f.dir, "sysrq")
	f.must(os.WriteFile(sysrq, nil, 0o600))
	own, write := f.owned()
	f.must(write("reboots: {deny: true}\n"))
	f.start(nil, own)
	f.expect(f.newAction(0), v1alpha1.ReasonRefused, 0)
	if written := f.read(sysrq); written != "" {
		t.Errorf("%q was written to the kernel's SysRq", written)
	}
}

func TestADryRunSaysWhatItWouldDoAndDoesNothing(t *testing.T) {
	f := newFixture(t)
	f.start(nil, func(o *runner.Options) { o.DryRun = true })
	got := f.expect(f.newAction(0), v1alpha1.ReasonDryRun, 0)
	if message := got.Finished().Message; !strings.Contains(message, `would run ["/bin/sh" "-c"`) || !strings.Contains(message, "(Direct)") {
		t.Errorf("it says %q", message)
	}
	if got.Status.Claim != nil || got.Status.Result != nil {
		t.Errorf("it has the claim %v and the result %v", got.Status.Claim, got.Status.Result)
	}
}

func TestEveryClaimAndResultIsAnEventOnTheNode(t *testing.T) {
	f := newFixture(t)
	f.policy = f.newPolicy(f.appends("executed")+"; echo secret; exit 3", f.appends("second"))
	f.start(nil)
	failed := f.expect(f.newAction(0), v1alpha1.ReasonFailed, 1)
	refused := f.expect(f.newAction(1, func(a *v1alpha1.NodeAction) { a.Spec.NodeUID = "earlier" }), v1alpha1.ReasonRefused, 1)
	want := []string{
		"Normal RemedyClaimed Action " + failed.Name,
		"Warning RemedyFinished Action " + failed.Name,
		"Warning RemedyFinished Action " + refused.Name,
	}
	slices.Sort(want)
	f.must(wait.PollUntilContextCancel(f.ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		if err := f.client.List(ctx, &events, client.InNamespace("default"), client.MatchingFields{"involvedObject.name": f.node.Name}); err != nil {
			return false, err
		}
		var got []string
		for _, e := range events.Items {
			if string(e.InvolvedObject.UID) != f.node.Name {
				t.Errorf("kubectl describe node does not find an event of UID %s", e.InvolvedObject.UID)
			}
			if strings.Contains(e.Message, "secret\n") {
				t.Errorf("an event holds output: %s", e.Message)
			}
			got = append(got, e.Type+" "+e.Reason+" "+strings.Join(strings.Fields(e.Message)[:2], " "))
		}
		slices.Sort(got)
		return slices.Equal(got, want), nil
	}))
}

func TestOutputIsKeptAsThePolicySays(t *testing.T) {
	for _, test := range []struct {
		output *v1alpha1.OutputPolicy
		want   string
	}{
		{nil, "password=hunter2\n"},
		{&v1alpha1.OutputPolicy{Redact: []string{`hunter\d`}}, "password=***\n"},
		{&v1alpha1.OutputPolicy{Keep: v1alpha1.OutputNone}, ""},
	} {
		t.Run(test.want, func(t *testing.T) {
			f := newFixture(t)
			f.policy = f.newPolicy(f.appends("executed") + "; echo password=hunter2")
			f.policy.Spec.Output = test.output
			f.must(f.client.Update(f.ctx, f.policy))
			f.start(nil)
			if got := f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1).Status.Result.Output; got != test.want {
				t.Errorf("kept %q, want %q", got, test.want)
			}
		})
	}
}

func TestARebootIsProvedByAnotherBoot(t *testing.T) {
	f := newFixture(t)
	f.policy.Spec.Steps[0] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}
	f.must(f.client.Update(f.ctx, f.policy))
	bootID, sysrq := filepath.Join(f.dir, "boot_id"), f.fifo("sysrq")
	f.must(os.WriteFile(bootID, []byte("boot-1\n"), 0o600))
	booted := func(o *runner.Options) { o.BootIDPath = bootID }
	first := f.start(nil, booted)
	action := f.newAction(0)
	var told string
	for len(told) < 3 && f.ctx.Err() == nil { // opened once more than written: to see whether that is possible
		data, err := os.ReadFile(sysrq)
		f.must(err)
		told += string(data)
	}
	if told != "sub" {
		t.Fatalf("the kernel was told %q, want sub", told)
	}
	f.must(first.stop())
	f.must(os.RemoveAll(filepath.Join(f.dir, "run"))) // as a boot does
	f.must(os.WriteFile(bootID, []byte("boot-2\n"), 0o600))
	f.start(nil, booted)
	got := f.expect(action, v1alpha1.ReasonSucceeded, 0)
	if got.Status.Claim.BootID != "boot-1" || got.Status.Result.BootIDAfter != "boot-2" {
		t.Errorf("got boot IDs %s and %s", got.Status.Claim.BootID, got.Status.Result.BootIDAfter)
	}
	if got.Status.Result.Execution != v1alpha1.ExecutionSysRq {
		t.Errorf("executed by %q, want %s", got.Status.Result.Execution, v1alpha1.ExecutionSysRq)
	}
}
