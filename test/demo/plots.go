package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// plot is what one story is about.
type plot struct {
	// title is its first line.
	title string
	// node is the name of the node.
	node string
	// condition is the type of the node condition, policy the name of what reacts.
	condition, policy string
	// sick is the condition's status when something is wrong, well when nothing is.
	sick, well corev1.ConditionStatus
	// fault says what is done to the node once it is seen healthy, and does it; nil: somebody
	// else does it.
	fault func(*story) error
	// parked goes on with a node that is out of service; nil: it does not come to that.
	parked func(*story) error
	// asked is the person who is asked to approve a step; nil: nobody is.
	asked func() error
	// ended shows what else there is to see.
	ended func(*story) error
	// pod is the name of the pod in the namespace default that is to move to another node; empty: none
	// is.
	pod string
}

// runtimePlot is about a container runtime that hangs.
func (d *demo) runtimePlot() plot {
	p := d.anyPlot()
	p.title = "A container runtime that hangs"
	p.fault = func(s *story) error {
		s.say("fault", "stopping the container runtime of %s (SIGSTOP): it accepts calls and never answers", d.node)
		return d.programs[runtimeName].Signal(syscall.SIGSTOP)
	}
	return p
}

// anyPlot is about a container runtime that somebody else has stopped.
func (d *demo) anyPlot() plot {
	return plot{node: d.node, condition: "ContainerRuntimeUnhealthy", sick: corev1.ConditionTrue, well: corev1.ConditionFalse, policy: "demo-runtime"}
}

// offTime is how long the repair takes.
const offTime = 5 * time.Second

// hardwarePlot is about a fan that stops. ctx ends what runs after the repair.
func (d *demo) hardwarePlot(ctx context.Context) plot {
	return plot{
		title: "A fan that stops, in a BMC that the demo plays for the real ipmitool",
		node:  d.node, condition: "HardwareFailure", sick: corev1.ConditionTrue, well: corev1.ConditionFalse, policy: "demo-hardware",
		fault: func(s *story) error {
			s.say("fault", "FAN1 of %s stands still", d.node)
			return d.bmc.turnFan(false)
		},
		parked: func(s *story) error {
			d.screen.line("")
			if err := errors.Join(d.show(ctx, "nodemend", "status"), d.show(ctx, "get", "node", d.node)); err != nil {
				return err
			}
			s.say("off", "somebody switches %s off and exchanges the fan: detector and runner are killed, kwok goes on playing its kubelet", d.node)
			d.switchOff()
			s.later(offTime, func() error {
				if s.told["cleared"] || s.told["in service"] {
					return errors.New("the node was taken for healthy while it was switched off")
				}
				s.say("on", "still out of service after %s: nobody has seen it healthy. Switched on, it reads its BMC anew", offTime)
				return d.switchOn()
			})
			return d.bmc.turnFan(true)
		},
	}
}

// switchOff takes the power from what runs on this machine as a node. Its BMC has power
// as long as the cord is plugged in.
func (d *demo) switchOff() {
	d.bmc.SetPower(false)
	d.kill("detector")
	d.kill("runner")
}

func (d *demo) switchOn() error {
	const powerButton = 3 // IPMI 2.0, table 28-11
	d.bmc.SetRestartCause(powerButton)
	d.bmc.SetPower(true)
	return errors.Join(d.startRole("detector"), d.startRole("runner"))
}
