//go:build integration

package command

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// runs starts a unit that is not an action's, and returns whether it has run ever since.
func (s *scene) runs(unit string) (stillRuns func() bool) {
	s.Helper()
	if err := s.host.Unit(s.Context(), unit, "[Service]\nType=exec\nExecStart=/bin/sleep 1000\n"); err != nil {
		s.Fatal(err)
	}
	if _, err := s.host.Run(s.Context(), "systemctl", "restart", unit); err != nil {
		s.Fatal(err)
	}
	state := func() string {
		text, err := s.host.Run(s.Context(), "systemctl", "show", "--property=ActiveState,MainPID", unit)
		if err != nil {
			s.Fatal(err)
		}
		return string(text)
	}
	before := state()
	return func() bool { return strings.Contains(before, "ActiveState=active") && state() == before }
}

func called(action string) func(*remedy.Order) {
	return func(o *remedy.Order) { o.Action = action }
}

// begunBefore makes an order one of the version before, whose unit had another name.
func begunBefore(order remedy.Order) remedy.Order {
	order.Prepared.Unit = ""
	return order
}

func TestAnActionMayBeCalledLikeTheRunnerItself(t *testing.T) {
	s := ownScene(t)
	for _, name := range []string{"runner", "detector"} {
		stillRuns := s.runs("nodemend-" + name + ".service")
		order := s.order("exit 3", called(name))
		s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonFailed, "exit status 3 after ")
		if err := s.Clean(t.Context(), order); err != nil {
			t.Error(err)
		}
		if !stillRuns() {
			t.Errorf("nodemend-%s.service was stopped", name)
		}
	}
}

func TestAUnitThatIsNotOfTheActionIsLeftAlone(t *testing.T) {
	s := ownScene(t)
	fresh := s.order("exit 3", called("taken"))
	stillRuns := s.runs(unitName("taken"))
	got := s.expect(s.Execute(t.Context(), fresh), v1alpha1.ReasonStartFailed, "systemd has a unit nodemend-action-taken.service that is not of this action")
	if got.Execution != "" {
		t.Errorf("got the result %+v of a command that was not executed", got)
	}
	s.expect(s.adopt(fresh), v1alpha1.ReasonInterrupted, "systemd's unit nodemend-action-taken.service is not of this action")
	if err := s.Clean(t.Context(), fresh); err != nil {
		t.Error(err)
	}
	if !stillRuns() {
		t.Error("it was stopped")
	}

	former := begunBefore(s.order("exit 3", called("runner"), shortTimeout))
	stillRuns = s.runs("nodemend-runner.service")
	s.expect(s.adopt(former), v1alpha1.ReasonInterrupted, "systemd's unit nodemend-runner.service is not of this action")
	thaw := s.host.Freeze(t)
	s.expect(s.adopt(former), v1alpha1.ReasonInterrupted, "systemd does not answer")
	thaw()
	if err := s.Clean(t.Context(), former); err != nil {
		t.Error(err)
	}
	if !stillRuns() {
		t.Error("the runner has killed itself")
	}
}

// An action that was deleted and created anew has another UID.
func TestTheUnitOfAnotherActionOfTheNameIsNotAdopted(t *testing.T) {
	s := newScene(t, TransientUnit)
	order := s.order("exit 3")
	s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonFailed, "exit status 3 after ")
	again := order
	again.UID = types.UID("another")
	s.expect(s.adopt(again), v1alpha1.ReasonInterrupted, "systemd's unit ")
	s.expect(s.adopt(order), v1alpha1.ReasonFailed, "exit status 3 after ")
}

func TestACommandThatTheVersionBeforeHasBegunIsAdopted(t *testing.T) {
	s := newScene(t, TransientUnit)
	order := begunBefore(s.order("exit 7"))
	unit := "nodemend-" + order.Action + ".service"
	if _, err := s.host.Run(t.Context(), "systemd-run", "--unit="+unit, "--description=nodemend: action "+order.Action,
		"--service-type=exec", "--remain-after-exit", "--property=SuccessExitStatus=7", "/bin/sh", "-c", order.Step.Command.Script); err != nil {
		t.Fatal(err)
	}
	s.expect(s.adopt(order), v1alpha1.ReasonFailed, "exit status 7 after ")
	if err := s.Clean(t.Context(), order); err != nil {
		t.Error(err)
	}
	left, err := s.host.Run(t.Context(), "systemctl", "list-units", "--all", "--plain", "--no-legend", unit)
	if err != nil || len(left) > 0 {
		t.Errorf("left is %q, %v", left, err)
	}
}
