package gates

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestInMaintenance(t *testing.T) {
	held := func(spec v1alpha1.NodeMaintenanceSpec) func(*Input) {
		return func(in *Input) {
			in.Maintenances = []v1alpha1.NodeMaintenance{{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: spec}}
		}
	}
	person := held(v1alpha1.NodeMaintenanceSpec{Reason: "swap DIMM A1"})
	jane := held(v1alpha1.NodeMaintenanceSpec{Reason: "swap DIMM A1", RequestedBy: "jane"})
	other := held(v1alpha1.NodeMaintenanceSpec{Reason: "PSU", RequestedBy: "policy p", Remediation: &v1alpha1.RemediationReference{Name: "r"}})
	takenOut := func(in *Input) { in.Remediation.Status.Maintenance = "own" }
	runGate(t, InMaintenance, []gateTest{
		{name: "in service", in: input()},
		{name: "out for the remediation itself", in: input(takenOut)},
		{name: "by somebody", in: input(person), reason: "InMaintenance", messages: []string{"node w17 is in maintenance m (swap DIMM A1), by a person"}},
		{name: "by a person with a name", in: input(jane), reason: "InMaintenance", messages: []string{"by jane"}},
		{name: "of another remediation", in: input(other), reason: "InMaintenance", messages: []string{"(PSU), of remediation r"}},
		{name: "for the remediation, and by a person", in: input(takenOut, jane), reason: "InMaintenance", messages: []string{"by jane"}},
	})
}
