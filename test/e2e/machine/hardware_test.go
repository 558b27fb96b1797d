//go:build e2e

package machine

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/repairnote"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// part is one that breaks.
type part struct {
	name           string
	breaks, mended func(*ipmisim.Simulator)
}

// The BMC's own generator of events, and a sensor that no SDR describes.
const (
	fromBMC, unnamed      = 0x20, 0x7f
	powerUnit, acLost     = 0x09, 0x04
	systemBoot, byPowerUp = 0x1d, 0x00
	sensorSpecific        = 0x6f
)

func parts() []part {
	const failed, uncorrectable, healthyFan = 1, 1, 120
	return []part{
		{
			"a power supply fails",
			func(bmc *ipmisim.Simulator) { bmc.SetSensorBit(ipmisim.PSU1Status, failed, true) },
			func(bmc *ipmisim.Simulator) { bmc.SetSensorBit(ipmisim.PSU1Status, failed, false) },
		},
		{
			"a fan stops",
			func(bmc *ipmisim.Simulator) { bmc.SetSensorValue(ipmisim.FAN1, 0) },
			func(bmc *ipmisim.Simulator) { bmc.SetSensorValue(ipmisim.FAN1, healthyFan) },
		},
		{
			"memory has an error that can't be corrected",
			func(bmc *ipmisim.Simulator) { bmc.SetSensorBit(ipmisim.DIMMA1, uncorrectable, true) },
			func(bmc *ipmisim.Simulator) {
				bmc.SetSensorBit(ipmisim.DIMMA1, uncorrectable, false)
				// A BMC logs that it was without any power for long, which is what proves that
				// the module may have been exchanged. The simulator does not.
				bmc.SetSELClock(time.Now().Add(-45 * time.Minute))
				bmc.AddEvent(fromBMC, powerUnit, unnamed, sensorSpecific, [3]byte{acLost, 0xff, 0xff})
				bmc.SetSELClock(time.Now())
				bmc.AddEvent(fromBMC, systemBoot, unnamed, sensorSpecific, [3]byte{byPowerUp, 0xff, 0xff})
			},
		},
	}
}

// verdicts are what the detector has said of each part.
type verdicts map[string]string

func TestHardwareThatFailsTakesTheNodeOutUntilItIsRepairedWhicheverWayTheBMCIsRead(t *testing.T) {
	s := begin(t)
	device, ipmitool := verdicts{}, verdicts{}
	s.Cleanup(func() { // when both have ended
		for _, part := range parts() {
			switch verdict, told := device[part.name]; {
			case verdict != ipmitool[part.name]:
				t.Errorf("%s: the verdict by the device is %q, and by ipmitool %q", part.name, verdict, ipmitool[part.name])
			case told: // it is not where no machine can be started
				s.Proved("%s: the same verdict by both: %s", part.name, verdict)
			}
		}
	})
	// One machine is cut off when a part fails, the other when it has been repaired.
	t.Run("device", func(t *testing.T) { hardwareFails(t, "device", device, true) })
	t.Run("ipmitool", func(t *testing.T) { hardwareFails(t, "ipmitool", ipmitool, false) })
}

func hardwareFails(t *testing.T, source string, said verdicts, cutOffAtFailure bool) {
	s := begin(t)
	bmc := ipmisim.Start(t)
	bmc.SetSELClock(time.Now())
	n := s.start("bmc-"+source, options{bmc: bmc, checks: noRuntimeCheck + "  hardware: {interval: 8s, timeout: 8s, source: " + source + "}\n"})
	n.Until(moment, "the BMC is read", n.Is(hardware, corev1.ConditionFalse))
	policy := n.Shipped("hardware-failure")
	policy.MaxRemediations.Count = 10
	n.Apply(n.name+"-hardware-failure", policy)
	for i, part := range parts() {
		n.Log(part.name)
		first := i == 0
		said[part.name] = n.fails(bmc, part, first && cutOffAtFailure)
		n.isRepaired(bmc, part, first && !cutOffAtFailure)
	}
}

// selTime is when an event was logged.
var selTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\dZ`)

// fails breaks a part and sees the node leave service. It returns what the detector has
// said, without the time.
func (n *node) fails(bmc *ipmisim.Simulator, part part, cutOff bool) (verdict string) {
	n.Helper()
	if cutOff {
		n.cutOff()
	}
	part.breaks(bmc)
	if cutOff {
		n.reconnect()
	}
	n.Until(round, "the failure is reported", n.Is(hardware, corev1.ConditionTrue))
	c := n.Condition(hardware)
	n.Until(round, "the node is in maintenance", n.Reaches(v1alpha1.ReasonInMaintenance))
	n.cordoned()
	n.hasEvidence(c)
	return selTime.ReplaceAllString(c.Reason+": "+repairnote.Said(c.Message), "then")
}

// hasEvidence sees that a technician finds in the status of the maintenance what the condition told.
func (n *node) hasEvidence(c corev1.NodeCondition) {
	n.Helper()
	n.Until(moment, "the maintenance has the evidence", func() (bool, string) {
		var list v1alpha1.NodeMaintenanceList
		n.Must(n.plane.List(n.Ctx, &list, client.MatchingFields{"spec.nodeName": n.name}))
		for _, m := range list.Items {
			for _, e := range m.Status.Evidence {
				text := strings.Join(e.Details, "\n")
				return e.Type == hardware && e.Reason == c.Reason && strings.Contains(text, "BMC: ") && strings.Contains(text, " firmware ") &&
					strings.Contains(text, ", since 20") && (strings.Contains(text, "record ") || strings.Contains(text, "states 0x")), text
			}
		}
		return false, "none"
	})
}

// isRepaired exchanges a part, as people do it who know nothing of Kubernetes, and sees the
// node come back.
func (n *node) isRepaired(bmc *ipmisim.Simulator, part part, cutOff bool) {
	n.Helper()
	failed, boots := n.Condition(hardware), len(n.machine.Boots())
	n.chassis(bmc, "off")
	n.hasEvidence(failed) // also while it is off
	part.mended(bmc)
	if cutOff {
		n.cutOff()
	}
	n.chassis(bmc, "on")
	n.boots(boots + 1)
	if cutOff {
		n.cordoned() // that it is silent proves nothing
		n.reconnect()
	}
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.executed("maintenance Succeeded")
	n.inService()
	if got := n.Condition(hardware); got.Status != corev1.ConditionFalse {
		n.Fatalf("the node is back although %s", story.Describe(got))
	}
	n.Proved("%s: %s; out of service, switched off, repaired, switched on, back by itself", part.name, failed.Reason)
	if cutOff {
		n.Proved("out of service as long as nobody had heard of its repair, for %s", outage)
	}
}

// chassis switches the power as people do from their desks.
func (n *node) chassis(bmc *ipmisim.Simulator, power string) {
	n.Helper()
	arguments := append(bmc.IPMITool(), "chassis", "power", power)
	if out, err := exec.CommandContext(n.Ctx, "ipmitool", arguments...).CombinedOutput(); err != nil {
		n.Fatalf("ipmitool %q: %v: %s", arguments, err, out)
	}
}
