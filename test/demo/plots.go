package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// plot is what one story is about.
type plot struct {
	// title is its first line.
	title string
	// condition is the type of the node condition, policy the name of what reacts.
	condition, policy string
	// fault says what is done to the node once it is seen healthy, and does it.
	fault func(*story) error
	// parked goes on with a node that is out of service; nil: it does not come to that.
	parked func(*story) error
}

// runtimePlot is about a container runtime that hangs.
func (d *demo) runtimePlot() plot {
	return plot{
		title:     "1. A container runtime that hangs",
		condition: "ContainerRuntimeUnhealthy", policy: "demo-runtime",
		fault: func(s *story) error {
			s.say("fault", "stopping the container runtime of %s (SIGSTOP): it accepts calls and never answers", d.node)
			return d.runtime.Process.Signal(syscall.SIGSTOP)
		},
	}
}

// offTime is how long the repair takes.
const offTime = 5 * time.Second

// hardwarePlot is about a fan that stops. ctx ends what runs after the repair.
func (d *demo) hardwarePlot(ctx context.Context) plot {
	return plot{
		title:     "2. A fan that stops. The demo plays the BMC; the detector reads it by the real ipmitool (-I dummy)",
		condition: "HardwareFailure", policy: "demo-hardware",
		fault: func(s *story) error {
			s.say("fault", "FAN1 of %s stands still", d.node)
			return d.bmc.turnFan(false)
		},
		parked: func(s *story) error {
			fmt.Println()
			if err := errors.Join(d.show(ctx, "get", "nodemaintenances"), d.show(ctx, "get", "node", d.node)); err != nil {
				return err
			}
			s.say("switched off", "somebody switches %s off and exchanges the fan: detector and runner are killed, kwok goes on playing its kubelet", d.node)
			d.switchOff()
			s.later(offTime, func() error {
				if s.told["condition cleared"] || s.told["back in service"] {
					return errors.New("the node was taken for healthy while it was switched off")
				}
				s.say("switched on", "still out of service after %s: nobody has seen it healthy. Switched on, it reads its BMC anew", offTime)
				return d.switchOn(ctx)
			})
			return d.bmc.turnFan(true)
		},
	}
}

// switchOff takes the power from what runs on this machine as a node. Its BMC has power
// as long as the cord is plugged in.
func (d *demo) switchOff() {
	d.bmc.SetPower(false)
	for _, role := range []string{"detector", "runner"} {
		p := d.roles[role]
		_ = p.Process.Kill() // it may have ended already
		_ = p.Wait()
		delete(d.roles, role)
	}
}

func (d *demo) switchOn(ctx context.Context) error {
	const powerButton = 3 // IPMI 2.0, table 28-11
	d.bmc.SetRestartCause(powerButton)
	d.bmc.SetPower(true)
	return errors.Join(d.startRole(ctx, "detector"), d.startRole(ctx, "runner"))
}
