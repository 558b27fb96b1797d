//go:build e2e

package machine

import (
	"os/exec"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// part is one that breaks.
type part struct {
	name           string
	breaks, mended func(*ipmisim.Simulator)
}

// The BMC's own generator of events, and a sensor that no SDR describes.
const (
	fromBMC, unnamed = 0x20, 0x7f
	powerUnit        = 0x09
	sensorSpecific   = 0x6f
	poweredOff       = 0x00
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
				// A BMC logs that the power was off, which is what proves that the module
				// may have been exchanged. The simulator does not.
				bmc.AddEvent(fromBMC, powerUnit, unnamed, sensorSpecific, [3]byte{poweredOff, 0xff, 0xff})
			},
		},
	}
}

func TestHardwareThatFailsTakesTheNodeOutUntilItIsRepairedWhicheverWayTheBMCIsRead(t *testing.T) {
	verdicts := map[string]string{} // of the first source, by the part
	for _, source := range []string{"device", "ipmitool"} {
		t.Run(source, func(t *testing.T) {
			s := begin(t)
			bmc := ipmisim.Start(t)
			bmc.SetSELClock(time.Now())
			n := s.start("bmc-"+source, options{bmc: bmc, checks: noRuntimeCheck + "  hardware: {interval: 3s, timeout: 3s, source: " + source + "}\n"})
			n.until(moment, "the BMC is read", n.is(hardware, corev1.ConditionFalse))
			n.shipped("hardware-failure", func(spec *v1alpha1.RemedyPolicySpec) { spec.MaxRemediations.Count = 10 })
			for i, part := range parts() {
				t.Log(part.name)
				verdict := n.repair(bmc, part, i)
				switch first, seen := verdicts[part.name]; {
				case !seen:
					verdicts[part.name] = verdict
				case verdict == first:
					s.proved("the same verdict as by the other source: %s", verdict)
				default:
					t.Errorf("%s: the verdict is %q, by the other source %q", part.name, verdict, first)
				}
			}
		})
	}
}

// selTime is when an event was logged.
var selTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\dZ`)

// repair breaks a part and exchanges it, as people do it who know nothing of Kubernetes, and
// returns what the detector has said, without the time.
func (n *node) repair(bmc *ipmisim.Simulator, part part, before int) (verdict string) {
	n.Helper()
	cut := before == 0
	if cut {
		n.cutOff()
	}
	part.breaks(bmc)
	if cut {
		n.reconnect()
	}
	n.until(round, "the failure is reported", n.is(hardware, corev1.ConditionTrue))
	c := n.condition(hardware)
	verdict = selTime.ReplaceAllString(c.Reason+": "+c.Message, "then")
	n.until(round, "the node is in maintenance", n.reaches(v1alpha1.ReasonInMaintenance))
	n.cordoned()

	n.chassis(bmc, "off")
	if cut {
		n.until(moment, "the node is missed", n.is(corev1.NodeReady, corev1.ConditionUnknown))
	}
	part.mended(bmc)
	n.cordoned() // that it is silent proves nothing
	n.chassis(bmc, "on")
	n.boots(before + 2)
	n.until(round, "the node has recovered", n.reaches(v1alpha1.ReasonRecovered))
	n.executed("maintenance Succeeded")
	n.inService()
	if got := n.condition(hardware); got.Status != corev1.ConditionFalse {
		n.Fatalf("the node is back although %s", describe(got))
	}
	n.proved("%s: %s; out of service, switched off, repaired, switched on, back by itself", part.name, c.Reason)
	return verdict
}

// chassis switches the power as people do from their desks.
func (n *node) chassis(bmc *ipmisim.Simulator, power string) {
	n.Helper()
	arguments := append(bmc.IPMITool(), "chassis", "power", power)
	if out, err := exec.CommandContext(n.ctx, "ipmitool", arguments...).CombinedOutput(); err != nil {
		n.Fatalf("ipmitool %q: %v: %s", arguments, err, out)
	}
}
