package gates

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestBusy(t *testing.T) {
	other := func(status v1alpha1.RemediationStatus) func(*Input) {
		return func(in *Input) {
			in.Past = append(in.Past, v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Status: status})
		}
	}
	ended := ago(time.Minute)
	stillRunning := []metav1.Condition{{Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStillRunning}}
	takenOut := func(in *Input) { in.Remediation.Status.Maintenance = "own" }
	runGate(t, Busy, []gateTest{
		{name: "alone", in: input()},
		{name: "others wait or have ended", in: input(other(v1alpha1.RemediationStatus{}), past("p", time.Minute))},
		{name: "another acts", in: input(other(v1alpha1.RemediationStatus{Action: "r-1"})), reason: "Busy", recheck: time.Minute,
			messages: []string{"remediation r acts on node w17: r-1"}},
		{name: "an action of another may still run", in: input(other(v1alpha1.RemediationStatus{Conditions: stillRunning})), reason: "Busy", recheck: time.Minute,
			messages: []string{"an action of remediation r may still run on node w17"}},
		{name: "it has ended", in: input(other(v1alpha1.RemediationStatus{Action: "r-1", EndTime: &ended}))},
		{name: "another takes the node out", in: input(other(v1alpha1.RemediationStatus{Maintenance: "r-m"})), reason: "Busy", recheck: time.Minute,
			messages: []string{"remediation r takes node w17 out of service: maintenance r-m"}},
		{name: "both have taken it out", in: input(takenOut, other(v1alpha1.RemediationStatus{Maintenance: "r-m"}))},
		{name: "another acts on the node that both have taken out", in: input(takenOut, other(v1alpha1.RemediationStatus{Action: "r-1", Maintenance: "r-m"})),
			reason: "Busy", recheck: time.Minute, messages: []string{"acts on"}},
	})
}
