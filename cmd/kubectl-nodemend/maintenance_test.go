package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestTheStatusOfMaintenancesHasLightAndPowerOfTheirMachines(t *testing.T) {
	of := func(node string, asked v1alpha1.PowerRequest, identify bool, phase v1alpha1.PowerPhase, light v1alpha1.LightState, messages ...string) v1alpha1.NodeMaintenance {
		m := v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: node + "-dimm", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
			Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: node, Reason: "swap DIMM A1", Power: asked, Identify: identify},
		}
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceCordoned, Reason: v1alpha1.ReasonCordoned}, {Type: v1alpha1.MaintenanceDrained, Reason: v1alpha1.ReasonDrained}}
		messages = append(messages, "", "")
		if phase != "" {
			m.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: phase, Message: messages[0]}
		}
		if light != "" {
			m.Status.Identify = &v1alpha1.IdentifyStatus{State: light, Message: messages[1]}
		}
		return m
	}
	const off = v1alpha1.PowerRequestOff
	found := []v1alpha1.NodeMaintenance{
		of("worker-11", "", false, "", ""),
		of("worker-12", off, true, v1alpha1.PowerOff, v1alpha1.LightOn),
		of("worker-13", off, false, v1alpha1.PowerWaiting, "", "nothing was switched: maintenance worker-13-rack (rack move) holds the node, too, and does not want power: Off"),
		of("worker-14", off, true, "", ""),
		of("worker-15", "", true, "", v1alpha1.LightOff, "", "ipmi://10.0.0.15:623: not supported"),
		of("worker-16", "", false, v1alpha1.PowerWaiting, v1alpha1.LightOff),
		of("worker-17", "", false, v1alpha1.PowerRestoring, v1alpha1.LightUnknown, "it was switched on, and is to boot", "it could not be put out: no answer"),
	}
	tl := &tool{clock: clocktesting.NewFakePassiveClock(noon)}
	golden(t, "maintenance-status-machines", tl.maintenanceText(found, false))
	golden(t, "maintenance-status-machines-wide", tl.maintenanceText(found, true))
	golden(t, "maintenance-status-machines-of-a-node", tl.maintenancesOfNode(found[4:]))
	if text := tl.maintenanceText(found[:1], false); strings.Contains(text, "POWER") {
		t.Errorf("of machines that nobody switches:\n%s", text)
	}
}
