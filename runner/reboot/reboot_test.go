package reboot

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestAnAdoptedRebootBySystemdIsAwaitedAndNotAskedForAgain(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSystemd)
	s.clock.SetTime(begun.Add(time.Minute))
	outcome := s.start(t.Context(), s.reboot.Adopt)
	s.waits(timeout - time.Minute)
	s.clock.Step(timeout - time.Minute - 1)
	s.pending(outcome)
	s.clock.Step(1)
	got := s.outcome(outcome)
	if got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.Contains(got.Message, "had asked for the reboot or was about to") ||
		got.Result.Execution != v1alpha1.ExecutionSystemd {
		t.Errorf("outcome %+v", got)
	}
	s.untouched()
}

func TestAnAdoptedRebootBySysRqThatHasBegunIsBroughtToItsEnd(t *testing.T) {
	for name, left := range map[string]func(*scene) error{
		"its runner has made the disks read-only": func(s *scene) error { return s.reboot.noteBegun(s.order) },
		"its runner is of a version that noted nothing down": func(s *scene) error {
			s.order.Prepared.Marks = false
			return nil
		},
		"nobody can tell": func(s *scene) error { return os.Mkdir(s.reboot.mark(), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, v1alpha1.RebootSysRq)
			if err := left(s); err != nil {
				t.Fatal(err)
			}
			s.clock.SetTime(begun.Add(time.Minute))
			outcome := s.start(t.Context(), s.reboot.Adopt)
			s.waits(patience)
			for range 2 {
				s.waits(patience, pause)
				s.clock.Step(pause)
			}
			s.waits(patience, timeout-time.Minute-2*pause)
			if got := s.read() + s.read() + s.read(); got != "sub" {
				t.Errorf("%q was written", got)
			}
			s.clock.Step(timeout)
			if got := s.outcome(outcome); got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.Contains(got.Message, "the kernel was asked to reset the machine") {
				t.Errorf("outcome %+v", got)
			}
			err := s.reboot.Clean(t.Context(), s.order)
			if _, left := os.Stat(s.reboot.mark()); err != nil || left == nil {
				t.Errorf("what it has noted down stays: %v", err)
			}
		})
	}
}

func TestAnAdoptedRebootBySysRqThatHasNotBegunIsNotBegun(t *testing.T) {
	for name, stopped := range map[string]string{"right at its start": "before-reboot", "after the disks were written": "s"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, v1alpha1.RebootSysRq)
			another := s.order
			another.UID = "another"
			if err := s.reboot.noteBegun(another); err != nil { // which did not happen
				t.Fatal(err)
			}
			if stopped == "s" {
				if err := s.reboot.write('s'); err != nil || s.read() != "s" {
					t.Fatal(err)
				}
			}
			got := s.outcome(s.start(t.Context(), s.reboot.Adopt))
			if got == nil || got.Reason != v1alpha1.ReasonNotStarted || got.Result != nil {
				t.Errorf("outcome %+v", got)
			}
			s.untouched()
		})
	}
}

func TestARebootThatNoLaterRunnerCouldBringToItsEndIsNotBegun(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	s.reboot.opts.RunDir = s.reboot.opts.BootIDPath // which is no directory
	outcome := s.start(t.Context(), s.reboot.Execute)
	s.waits(patience, patience, pause)
	s.clock.Step(pause)
	if got := s.outcome(outcome); got.Reason != v1alpha1.ReasonStartFailed || got.Result != nil || !strings.HasSuffix(got.Message, "; nothing was executed") {
		t.Errorf("outcome %+v", got)
	}
	if got := s.read(); got != "s" {
		t.Errorf("%q was written", got)
	}
	s.untouched()
}

func TestARunnerThatIsStoppedBeforeItAdoptsARebootDoesNotAskForIt(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	if err := s.reboot.noteBegun(s.order); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.outcome(s.start(ctx, s.reboot.Adopt)); got != nil {
		t.Errorf("outcome %+v", got)
	}
	s.untouched()
}

func TestAnAdoptedRebootThatHasHappenedHasSucceeded(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	if err := os.WriteFile(s.reboot.opts.BootIDPath, []byte("boot-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := s.outcome(s.start(t.Context(), s.reboot.Adopt))
	if got == nil || got.Reason != v1alpha1.ReasonSucceeded || got.Result.BootIDAfter != "boot-2" || got.Result.Execution != v1alpha1.ExecutionSysRq {
		t.Errorf("outcome %+v", got)
	}
}

func TestABootIDThatCanNotBeReadProvesNothing(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	if err := os.Remove(s.reboot.opts.BootIDPath); err != nil {
		t.Fatal(err)
	}
	outcome := s.start(t.Context(), s.reboot.Adopt)
	s.waits(timeout)
	s.clock.Step(timeout)
	if got := s.outcome(outcome); got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.Contains(got.Message, "boot_id: no such file") {
		t.Errorf("outcome %+v", got)
	}
	s.untouched()
}

func TestAnAdoptedRebootStaysAdoptableWhenTheRunnerIsStopped(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSystemd)
	ctx, cancel := context.WithCancel(t.Context())
	outcome := s.start(ctx, s.reboot.Adopt)
	s.waits(timeout)
	cancel()
	if got := s.outcome(outcome); got != nil {
		t.Errorf("outcome %+v", got)
	}
}

func TestAClockThatWasSetBackDoesNotProlongTheWait(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSystemd)
	s.clock.SetTime(begun.Add(-24 * time.Hour))
	s.start(t.Context(), s.reboot.Adopt)
	s.waits(timeout)
}

func TestAnOverdueRebootIsReportedAtOnce(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	s.clock.SetTime(begun.Add(timeout))
	if err := s.reboot.noteBegun(s.order); err != nil {
		t.Fatal(err)
	}
	if got := s.outcome(s.start(t.Context(), s.reboot.Adopt)); got.Reason != v1alpha1.ReasonRebootNotObserved {
		t.Errorf("outcome %+v", got)
	}
	s.untouched()
}

func TestTheNextBootsRunnerReportsTheReboot(t *testing.T) {
	claim := v1alpha1.Claim{RunnerID: "r", BootID: "boot-1", Time: metav1.NewTime(begun), Remedy: v1alpha1.RemedyReboot}
	for name, tc := range map[string]struct {
		after   time.Duration
		message string
	}{
		"a minute later":               {61*time.Second + 400*time.Millisecond, "the node has booted: boot ID boot-1 -> boot-2, 61 s after the claim"},
		"by a clock that is set wrong": {-time.Hour, "the node has booted: boot ID boot-1 -> boot-2, 0 s after the claim"},
	} {
		now := begun.Add(tc.after)
		want := remedy.Outcome{
			Reason: v1alpha1.ReasonSucceeded, Message: tc.message,
			Result: &v1alpha1.ActionResult{BootIDAfter: "boot-2", StartedAt: v1alpha1.NewMicroTime(begun), FinishedAt: v1alpha1.NewMicroTime(now)},
		}
		if diff := cmp.Diff(want, Rebooted(claim, nil, "boot-2", now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheNextBootsRunnerKnowsFromTheStepHowTheNodeWasRebooted(t *testing.T) {
	for name, tc := range map[string]struct {
		step *v1alpha1.Step
		want v1alpha1.Execution
	}{
		"by SysRq":                           {&v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}}, v1alpha1.ExecutionSysRq},
		"by systemd":                         {&v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSystemd}}, v1alpha1.ExecutionSystemd},
		"by a policy that has lost the step": {nil, ""},
		"by a step that is something else":   {&v1alpha1.Step{Command: &v1alpha1.CommandRemedy{}}, ""},
	} {
		claim := v1alpha1.Claim{BootID: "boot-1", Remedy: v1alpha1.RemedyReboot}
		if got := Rebooted(claim, tc.step, "boot-2", begun).Result.Execution; got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestSystemdThatDoesNotAnswerIsSaidBeforeAnythingIsDone(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSystemd)
	s.reboot.opts.Dialer.Bus = s.TempDir() + "/socket"
	_, prepare := s.reboot.Prepare(t.Context(), s.order)
	for name, got := range map[string]*remedy.Outcome{"Prepare": prepare, "Execute": s.outcome(s.start(t.Context(), s.reboot.Execute))} {
		if got == nil || got.Reason != v1alpha1.ReasonStartFailed || got.Result != nil ||
			!strings.Contains(got.Message, "systemd does not answer") || !strings.HasSuffix(got.Message, "; nothing was executed") {
			t.Errorf("%s: outcome %+v", name, got)
		}
	}
}
