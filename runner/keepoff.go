package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

const (
	// holdTime is how often a machine is read that is proved to be off, while its pods and volumes are
	// to be freed: the controller believes no reading that is older than some seconds.
	holdTime = time.Second
	// maxHeld is how many of these readings are kept. Then nobody frees anything: the controller may
	// not, or does not run.
	maxHeld = 300
)

// keepOff proves that a machine is off, and keeps how often it was read so, until the controller has
// freed what the boot that is over has left: pods and volumes.
func (t *machineAtWork) keepOff(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (time.Duration, error) {
	if t.node != nil && m.KeepsOutOfService(t.node) {
		return t.says(ctx, m, v1alpha1.PowerOff, "it is proved to be off: its pods and volumes are freed by the taint out-of-service", offTime)
	}
	if m.Status.Power.Held >= maxHeld {
		return t.says(ctx, m, v1alpha1.PowerOff, "it is proved to be off, and nobody has freed its pods and volumes: set remoteRunner.outOfService of the chart, end the maintenance, and begin another", offTime)
	}
	not := func(why string, again time.Duration) (time.Duration, error) {
		return t.says(ctx, m, v1alpha1.PowerOff, "it is off, and its pods and volumes are not freed: "+why, again)
	}
	switch {
	case !t.Power:
		return not(notAllowed, retryFacts)
	case t.DryRun:
		return not("dry run", retryFacts)
	}
	f, err := t.shutdownFacts(ctx, m)
	if err != nil {
		return 0, err
	}
	if why := f.keepsPods(); why != "" {
		return not(why, stepTime)
	}
	asked := t.Clock.Now()
	r, err := t.once(ctx, m, bmc, machine)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	plan := proof.DefaultPlan()
	plan.Node, plan.BootID, plan.Machine, plan.Reader, plan.Switch = t.name, m.Status.Power.BootID, machine, t.RunnerID, bmc.String()
	known := t.tried[m.UID]
	proved, is := known.off.Read(plan, asked, t.Clock.Now(), r, err)
	t.tried[m.UID] = known
	switch kept, none := proof.OfMaintenance(m); {
	case err != nil:
		return not(err.Error(), t.afterError(m, err))
	case r.Power != power.Off:
		return not(fmt.Sprintf("%s says %s", bmc, r.Power), stepTime)
	case r.Reported:
		return not(fmt.Sprintf("%s tells what another program has read, and nobody knows when", bmc), retryConfig)
	case !is: // also if it was proved: the switch may have restarted since
		return t.says(ctx, m, v1alpha1.PowerOff, fmt.Sprintf("it is read off for %s, which proves that it is. Then its pods and volumes are freed", plan.Settled), stepTime)
	case none == nil && kept.Proves(t.name, plan.BootID) && kept.Record().Machine == machine:
		return holdTime, t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) { s.Power.Held++ })
	}
	t.Events.Event(newAuditor(t.name, t.Events).node, corev1.EventTypeNormal, eventPower, clip(fmt.Sprintf("maintenance %s: %s", m.Name, proved)))
	return holdTime, t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) {
		s.Power.Proof, s.Power.Held, s.Power.Message = powerProof(proved), 0, "it is proved to be off: its pods and volumes are to be freed"
	})
}
