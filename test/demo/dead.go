package main

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// deadPlot is about a node that does not answer.
func (d *demo) deadPlot(ctx context.Context) plot {
	return plot{
		title: "A node that does not answer: fenced, its pods freed. The machine and its BMC are played by the demo; Kubernetes, controller and remote runner are real",
		node:  machineName, condition: string(corev1.NodeReady), sick: corev1.ConditionUnknown, well: corev1.ConditionTrue, policy: "demo-dead", pod: "db-0",
		fault: func(s *story) error {
			d.screen.line("")
			if err := d.showOf(ctx, "nodemend", filepath.Join(d.bin, "nodemend"), "fence", "check", "--config", d.path("remote.yaml"), machineName); err != nil {
				return err
			}
			s.say("fault", "all that runs on %s stands still (SIGSTOP), pod db-0 with it. Kubernetes waits for 50 s for a sign of its kubelet, and moves nothing by itself: what does not answer may still write", machineName)
			return d.machine.hang()
		},
		asked: func() error {
			d.screen.line("")
			return errors.Join(d.show(ctx, "nodemend", "why", machineName), d.show(ctx, "nodemend", "approve", machineName))
		},
		ended: func(s *story) error {
			return errors.Join(d.show(ctx, "get", "pod", s.pod, "-o", "wide"), d.show(ctx, "nodemend", "describe", s.over))
		},
	}
}

// seePower tells that the BMC has switched the machine, which boots when it has power.
func (s *story) seePower(ctx context.Context, on bool) {
	m := s.demo.machine
	if !on {
		s.say("off", "the BMC, which is played, takes the power from %s, which is played: what ran there is killed", machineName)
		return
	}
	s.say("on", "the BMC gives %s its power back: it boots", machineName)
	s.later(bootTime, func() error { return m.boot(ctx) })
}

// seeCycle tells how far the remote runner is with the power of a machine.
func (s *story) seeCycle(a *v1alpha1.NodeAction) {
	if a.Status.Power == nil {
		return
	}
	switch phase := proof.Phase(a.Status.Power.Phase); phase {
	case proof.Looking:
		s.say("looks", "it finds the BMC in remote.yaml, reads that this is the machine of the node and that its power is on, and reads node, policy and approval anew")
	case proof.Cutting:
		s.say("cuts", "the node has written nothing for 50 s, and all still holds: off, and never \"cycle\", whose effect nobody could read")
	case proof.ProvedOff:
		if proved, err := proof.OfAction(a); err == nil {
			s.say("proof", "read off twice, and kept in the action: %s", proved)
		}
	default: // what comes next is seen of the machine
	}
}

// seeTaint tells of the taint out-of-service.
func (s *story) seeTaint(node *corev1.Node) {
	mark, _ := v1alpha1.OutOfServiceMarkOf(node)
	switch own, _ := mark.OutOfService(node); {
	case own >= 0 && mark.Moved:
		s.say("freed", "nothing of %s is left that was to move, so the power may come back", node.Name)
	case own >= 0:
		s.say("tainted", "on that proof the controller sets the taint %s: Kubernetes ends the pods, and would detach their volumes", corev1.TaintNodeOutOfService)
	case s.told["tainted"]:
		s.say("untainted", "boot ID %s is a new one, the node is Ready, nothing of the old boot is left: the controller takes its taint away", node.Status.NodeInfo.BootID)
	}
}

// seePod tells where the pod runs that is to move.
func (s *story) seePod(pod *corev1.Pod) {
	if pod.Name != s.pod || pod.Namespace != corev1.NamespaceDefault || pod.Status.Phase != corev1.PodRunning {
		return
	}
	if s.told["tainted"] && pod.Spec.NodeName != s.node {
		s.say("moved", "pod %s runs on %s", pod.Name, pod.Spec.NodeName)
	}
}
