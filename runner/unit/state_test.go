package unit

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestPropertiesOfAServiceAreRead(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parse(map[string]any{
		"Id": "b.service", "Names": []string{"a.service", "b.service"},
		"RequiredBy": []string{"d.service", "c.service"}, "RequisiteOf": []string{"e.service"}, "BoundBy": []string{"f.service"},
		"ConsistsOf": []string{"c.service"}, "PropagatesStopTo": []string{"g.service"},
		"LoadState": "loaded", "LoadError": []any{"org.freedesktop.x", "a text"},
		"ActiveState": "active", "SubState": "exited", "InactiveExitTimestampMonotonic": uint64(9), "Job": []any{uint32(7), "/job/7"},
		"InvocationID": []byte{0xab, 1}, "Result": "success",
		"ConditionTimestamp": uint64(5), "ConditionResult": false,
		"Type": "oneshot", "RemainAfterExit": true, "MainPID": uint32(42), "NRestarts": uint32(2),
		"ExecMainCode": int32(1), "ExecMainStatus": int32(3),
	})).To(Equal(state{
		names: []string{"b.service", "a.service"}, dependents: []string{"c.service", "d.service", "e.service", "f.service", "g.service"}, load: "loaded", loadError: "a text", active: "active", sub: "exited", changed: 9, job: 7, invocation: "ab01",
		result: "success", conditionFailed: true, kind: "oneshot", remainAfterExit: true, mainPID: 42, restarts: 2, exitCode: 1, exitStatus: 3,
	}))
}

func TestMissingAndStrangePropertiesAreZero(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parse(nil)).To(Equal(state{}))
	g.Expect(parse(map[string]any{
		"ActiveState": 7, "InvocationID": "text", "Job": []any{}, "LoadError": []any{"one"}, "MainPID": int64(1),
		"ConditionTimestamp": uint64(0), "ConditionResult": false,
	})).To(Equal(state{}))
}

func TestAOneshotWithRemainAfterExitIsNotDoneWhenItIsInactive(t *testing.T) {
	g := NewWithT(t)
	s := state{kind: "oneshot", active: "inactive", result: "success"}
	g.Expect(s.isDone()).To(BeTrue())
	s.remainAfterExit = true
	g.Expect(s.isDone()).To(BeFalse())
}

func TestAUnitThatCannotBeLoadedIsNotExecuted(t *testing.T) {
	for load, reason := range map[string]string{
		"not-found":   v1alpha1.ReasonUnitNotFound,
		"masked":      v1alpha1.ReasonUnitMasked,
		"bad-setting": v1alpha1.ReasonStartFailed,
		"error":       v1alpha1.ReasonStartFailed,
		"":            v1alpha1.ReasonStartFailed,
	} {
		t.Run(load, func(t *testing.T) {
			g := NewWithT(t)
			outcome := loadFailure("x.service", state{load: load, loadError: "line 3"})
			g.Expect(outcome.Reason).To(Equal(reason))
			g.Expect(outcome.Result).To(BeNil())
			g.Expect(outcome.Message).To(ContainSubstring("x.service"))
		})
	}
	NewWithT(t).Expect(loadFailure("x.service", state{load: "loaded"})).To(BeNil())
}
