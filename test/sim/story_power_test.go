package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// switches gives all nodes BMCs and the first one a pod with a volume, and has a remote runner at work. A policy
// switches the power of nodes that do not answer.
func (s *stage) switches(n *node, frees bool) *volume {
	s.powers, s.volumes = &powers{world: s.world}, &volumes{world: s.world}
	for i, n := range s.nodes {
		s.newBMC(n, i)
	}
	s.volumes.add(n)
	s.startRemoteRunner()
	s.policy(func(p *v1alpha1.RemedyPolicySpec) {
		p.Match = []v1alpha1.ConditionMatch{{Type: string(corev1.NodeReady), Status: corev1.ConditionUnknown, For: duration(time.Minute)}}
	}, powerCycle(frees))
	return s.volumes.all[0]
}

// cycled is how the first action of a node has ended, "" if it has not.
func (s *stage) cycled(n *node) string {
	for _, a := range s.actions(n) {
		if f := a.Finished(); f != nil {
			return f.Reason
		}
	}
	return ""
}

// outOfService reports whether anybody has taken a node out of service.
func (s *stage) outOfService(n *node) bool {
	return v1alpha1.IsOutOfService(apiserver.Peek[*corev1.Node](s.server, client.ObjectKey{Name: n.name}))
}

func TestTheMachineOfANodeThatDoesNotAnswerIsSwitchedOffAndOn(t *testing.T) {
	tellAll(t, 4, story{"its pods move before it is on again", func(s *stage) {
		n := s.scene("n1", "n2")
		v := s.switches(n, true)
		s.begin()
		s.until("its pod writes", v.runs)
		n.hangs()
		s.until("it is out of service", func() bool { return s.outOfService(n) })
		expect(s, "it is on", n.bmc.on(), false)
		s.until("it is on", n.bmc.on)
		expect(s, "volume is at n1", v.at == n, false)
		s.until("the taint is gone", func() bool { return !s.outOfService(n) })
		s.until("the node is healed", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonRecovered)
		s.until("the pod writes on the other one", func() bool { return v.runs() && v.at != n })
	}}, story{"nothing is freed unless the step says so", func(s *stage) {
		n := s.scene("n1", "n2")
		v := s.switches(n, false)
		s.begin()
		s.until("its pod writes", v.runs)
		n.hangs()
		s.until("it is off", func() bool { return !n.bmc.on() })
		s.until("the node is healed", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonRecovered)
		expect(s, "boots", n.boot, 2)
		expect(s, "volume is at n1", v.at == n, true)
	}}, story{"it goes on before", func(s *stage) {
		n := s.scene("n1", "n2")
		s.switches(n, true)
		s.begin()
		n.hangs()
		s.until("it is claimed", func() bool { all := s.actions(n); return len(all) == 1 && all[0].Status.Claim != nil })
		n.wakes()
		s.back(n)
		expect(s, "boots", n.boot, 1)
	}}, story{"a person puts it back in service while its BMC does not answer", func(s *stage) {
		n := s.scene("n1", "n2")
		s.switches(n, true)
		s.begin()
		n.hangs()
		n.bmc.deaf = distant
		s.until("it is claimed", func() bool { all := s.actions(n); return len(all) == 1 && all[0].Status.Claim != nil })
		for _, m := range apiserver.Stored[*v1alpha1.NodeMaintenance](s.server) {
			s.remove(m.DeepCopy())
		}
		s.until("it is uncordoned", func() bool { return !n.object().Spec.Unschedulable })
		s.pass(time.Minute)
		n.bmc.deaf = time.Time{}
		s.until("nothing is switched", func() bool { return s.cycled(n) == v1alpha1.ReasonRefused })
		expect(s, "it is on", n.bmc.on(), true)
		n.wakes()
		s.back(n)
	}}, story{"somebody has switched it off", func(s *stage) {
		n := s.scene("n1", "n2")
		s.switches(n, true)
		s.begin()
		n.bmc.turnedOff("somebody", "")
		s.until("it is left so", func() bool { return s.cycled(n) == v1alpha1.ReasonPowerWasOff })
		expect(s, "it is on", n.bmc.on(), false)
		n.bmc.turnedOn("somebody")
		s.back(n)
	}}, story{"its BMC acknowledges the off, and does nothing", func(s *stage) {
		n := s.scene("n1", "n2")
		s.switches(n, true)
		s.begin()
		n.hangs()
		n.bmc.stuck = true
		s.until("people are told", func() bool { return s.cycled(n) == v1alpha1.ReasonPowerStillOn })
		expect(s, "out of service", s.outOfService(n), false)
		n.wakes()
		s.back(n)
	}}, story{"the remote runner dies as it is off", func(s *stage) {
		n := s.scene("n1", "n2")
		s.switches(n, true)
		s.begin()
		n.hangs()
		s.until("it is off", func() bool { return !n.bmc.on() })
		s.world.end(s.remote())
		s.pass(time.Minute)
		s.startRemoteRunner()
		s.until("the node is healed", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonRecovered)
		expect(s, "boots", n.boot, 2)
	}})
}
