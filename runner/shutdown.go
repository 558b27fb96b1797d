package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// shutdownTime is how long an operating system has to shut down before its power is cut: what is
	// left on a drained node has minutes to end, and some units take their time.
	shutdownTime = 10 * time.Minute
	// unreadTime is how long a switch that can't be read is waited for before anybody could ask the
	// operating system.
	unreadTime = 30 * time.Minute
	// backIn is for how long a machine is watched that is switched on again: until it has booted.
	// An off that is late comes before.
	backIn = 15 * time.Minute
	// stepTime is how often a machine is looked at that is being switched, offTime how often one
	// that stays off.
	stepTime, offTime = 5 * time.Second, time.Minute
	// factsAge is how old what a cut goes by may be: see I11.
	factsAge = 5 * time.Second
)

// eventPower is the reason of events about the power of a machine in maintenance.
const eventPower = "MaintenancePower"

// wantsOff reports whether the machine of the node is to be off for the maintenance, or to stay so.
func wantsOff(m *v1alpha1.NodeMaintenance, node *corev1.Node) bool {
	return m.Spec.Power == v1alpha1.PowerRequestOff && isHeldBy(m, node)
}

// powers goes on with the maintenance by which the machine may be off, or begins with the oldest
// that wants it to be. All others wait for its end.
func (t *machineAtWork) powers(ctx context.Context) (again time.Duration, err error) {
	var first *v1alpha1.NodeMaintenance
	for i := range t.all {
		m := &t.all[i]
		if m.MayBeOff() {
			first = m
			break
		}
		if first == nil && wantsOff(m, t.node) && !over(m) {
			first = m
		}
	}
	for i := range t.all {
		m := &t.all[i]
		var wait time.Duration
		switch {
		case m == first && m.MayBeOff():
			wait, err = t.step(ctx, m)
		case m == first:
			wait, err = t.consider(ctx, m)
		case m.MayBeOff():
			wait, err = t.says(ctx, m, m.Status.Power.Phase, "it goes on after maintenance "+first.Name, retryFacts)
		case wantsOff(m, t.node) && !over(m):
			wait, err = t.says(ctx, m, v1alpha1.PowerWaiting, "nothing was switched: it waits for the end of maintenance "+first.Name, retryFacts)
		}
		if err != nil {
			return 0, fmt.Errorf("the power of node %s, for maintenance %s: %w", t.name, m.Name, err)
		}
		again = soonest(again, wait)
	}
	return again, nil
}

// over reports whether the maintenance has had its way with the power: it switches nothing any more.
func over(m *v1alpha1.NodeMaintenance) bool {
	s := m.Status.Power
	return s != nil && (s.Phase == v1alpha1.PowerOn || s.Phase == v1alpha1.PowerWasOff || s.Phase == v1alpha1.PowerLeftOff)
}

// consider begins to switch the machine off, or says why it does not.
func (t *machineAtWork) consider(ctx context.Context, m *v1alpha1.NodeMaintenance) (time.Duration, error) {
	waiting := func(why string, again time.Duration) (time.Duration, error) {
		return t.says(ctx, m, v1alpha1.PowerWaiting, "nothing was switched: "+why, again)
	}
	if !kept(m) { // by the controller, soon
		return 0, nil
	}
	if !t.Power {
		return waiting(notAllowed, 0)
	}
	why, _, err := t.forbidden(ctx, m)
	if err != nil {
		return 0, err
	}
	if why != "" {
		return waiting(why, retryFacts)
	}
	machine, err := t.machineOf()
	if err != nil {
		return waiting(err.Error(), retryConfig)
	}
	bmc, uuid, err := t.switchOf(machine)
	if err != nil {
		return waiting(err.Error(), retryConfig)
	}
	if lit := m.Status.Machine; m.MayShine() && lit != nil && lit.UUID != machine.UUID {
		return waiting("the light of another machine shines for this maintenance", retrySwitch)
	}
	if t.DryRun {
		return waiting(fmt.Sprintf("dry run: this runner would shut the machine down by %s", bmc), retryConfig)
	}
	is, doubt, err := t.look(ctx, m, bmc, uuid)
	switch {
	case err != nil:
		return waiting(err.Error(), retrySwitch)
	case is.Reported:
		return waiting(another(bmc), retryConfig)
	case is.Power == power.Changing:
		return waiting("the power is neither on nor off", retryDark)
	case doubt != "":
		return waiting(doubt, stepTime)
	}
	// Last, since it reads all nodes.
	switch err := t.alone(ctx, uuid); {
	case errors.Is(err, errNoMachine):
		return waiting(err.Error(), retryConfig)
	case err != nil:
		return 0, err
	case is.Power == power.Off:
		return t.enter(ctx, m, v1alpha1.PowerWasOff, machine, "the power was off already: somebody has switched it off, and it is not switched on at the end")
	}
	if _, err := t.enter(ctx, m, v1alpha1.PowerShuttingDown, machine, ""); err != nil {
		return 0, err
	}
	return t.step(ctx, m)
}

// another is why nothing is switched by what says what another program has read.
func another(bmc power.Switch) string {
	return fmt.Sprintf("%s says what another program has read some time ago, and nobody may put their hands in a machine by that: switch it off by that program", bmc)
}

// step goes on with a machine that may be off by the maintenance.
func (t *machineAtWork) step(ctx context.Context, m *v1alpha1.NodeMaintenance) (time.Duration, error) {
	if err := t.settle(ctx, m); err != nil || !m.MayBeOff() {
		return 0, err
	}
	if err := t.takeOver(ctx, m); err != nil {
		return 0, err
	}
	if t.booted(m) {
		return t.enter(ctx, m, v1alpha1.PowerOn, nil, "the node has booted: boot ID "+m.Status.Power.BootID+" -> "+t.node.Status.NodeInfo.BootID)
	}
	if m.Status.Machine == nil {
		return t.says(ctx, m, m.Status.Power.Phase, "somebody has removed status.machine, so nobody knows which machine it is: look at it", retryConfig)
	}
	bmc, uuid, err := t.switchOf(m.Status.Machine)
	if err != nil {
		return t.says(ctx, m, m.Status.Power.Phase, err.Error(), retrySwitch)
	}
	stays := wantsOff(m, t.node)
	switch phase := m.Status.Power.Phase; {
	case phase == v1alpha1.PowerRestoring || !stays:
		return t.back(ctx, m, bmc, uuid)
	case phase == v1alpha1.PowerShuttingDown:
		return t.shutDown(ctx, m, bmc, uuid)
	case phase == v1alpha1.PowerCutting:
		return t.cut(ctx, m, bmc, uuid)
	case phase == v1alpha1.PowerOff && m.Spec.OutOfService:
		return t.keepOff(ctx, m, bmc, uuid)
	default: // Off, StillOn
		return offTime, nil
	}
}

// takeOver has this process go on with what another one has begun.
func (t *machineAtWork) takeOver(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	if m.Status.Power.RunnerID == t.RunnerID {
		return nil
	}
	known := t.tried[m.UID]
	known.takenOver = t.Clock.Now() // before the write, whose answer may be lost
	known.asked, known.asking, known.cutting = "", time.Time{}, time.Time{}
	t.tried[m.UID] = known
	return t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) { s.Power.RunnerID = t.RunnerID })
}

// booted reports whether the node was seen with another boot than that which was shut down.
func (t *machineAtWork) booted(m *v1alpha1.NodeMaintenance) bool {
	return t.isOurs(m) && t.node.Status.NodeInfo.BootID != "" && t.node.Status.NodeInfo.BootID != m.Status.Power.BootID
}

// shutDown asks the operating system to shut down, and waits until it has. Its time begins when this process asks: nobody
// knows whether another one has.
func (t *machineAtWork) shutDown(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (time.Duration, error) {
	is, doubt, err := t.look(ctx, m, bmc, machine)
	switch {
	case is.Reported: // somebody has changed remote.yaml. It is said with an error, too
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, another(bmc), retryConfig)
	case err == nil && is.Power == power.Off && doubt == "":
		return t.enter(ctx, m, v1alpha1.PowerOff, nil, "")
	case doubt != "":
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, doubt, stepTime)
	}
	known := t.tried[m.UID]
	if known.failed > retriesSoon {
		t.unasked(m)
		known = t.tried[m.UID]
	}
	switch {
	case !known.asking.IsZero() && t.Clock.Now().Sub(known.asking) >= shutdownTime:
		return t.beginCut(ctx, m)
	case known.failed > 0 && known.asking.IsZero() && t.Clock.Now().Sub(known.failing) >= unreadTime:
		return t.enter(ctx, m, v1alpha1.PowerStillOn, nil, fmt.Sprintf("for %s nobody could ask its operating system to shut down (%v): look at its BMC", unreadTime, err))
	case err != nil:
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, err.Error(), t.afterError(m, err))
	case known.asked != "":
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, known.asked, stepTime)
	}
	why, asOf, err := t.stopped(ctx, m)
	if err != nil {
		return 0, err
	}
	if why != "" {
		t.unasked(m)
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, why, stepTime)
	}
	if t.Clock.Now().Sub(asOf) > factsAge {
		return stepTime, nil
	}
	remedy.Reached(ctx, "before-shutdown")
	asked := t.Clock.Now()
	_, err = call(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, bmc.Shutdown(ctx, machine, t.stillStopped(m, asOf))
	})
	if known = t.tried[m.UID]; known.asking.IsZero() && !errors.Is(err, power.ErrNotSent) {
		known.asking = asked
		t.tried[m.UID] = known
	}
	until := t.ServerClock.Now().Add(shutdownTime - t.Clock.Now().Sub(known.asking)).UTC().Format(time.RFC3339)
	said := "the operating system was asked to shut down, and has until " + until
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, power.ErrUnsupported):
		said = fmt.Sprintf("shut the machine down by hand: nobody can ask its operating system to (%v). At %s its power is cut", err, until)
	case err != nil:
		t.unheardOf(m)
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, err.Error(), t.afterError(m, err))
	}
	known.asked = said
	t.tried[m.UID] = known
	return t.says(ctx, m, v1alpha1.PowerShuttingDown, said, stepTime)
}

// beginCut says that the power will be cut of what has not shut down.
func (t *machineAtWork) beginCut(ctx context.Context, m *v1alpha1.NodeMaintenance) (time.Duration, error) {
	why, _, err := t.stopped(ctx, m)
	if err != nil {
		return 0, err
	}
	if why != "" {
		return t.says(ctx, m, v1alpha1.PowerShuttingDown, "it has not shut down, and its power is not cut: "+why, retryFacts)
	}
	return t.enter(ctx, m, v1alpha1.PowerCutting, nil, fmt.Sprintf("it has not shut down within %s", shutdownTime))
}

// cut cuts the power, until it reads off or nobody believes any more that it goes off.
func (t *machineAtWork) cut(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (time.Duration, error) {
	plan := proof.DefaultPlan()
	is, doubt, err := t.look(ctx, m, bmc, machine)
	switch {
	case is.Reported: // somebody has changed remote.yaml. It is said with an error, too
		return t.says(ctx, m, v1alpha1.PowerCutting, another(bmc), retryConfig)
	case err == nil && is.Power == power.Off && doubt == "":
		return t.enter(ctx, m, v1alpha1.PowerOff, nil, "its power was cut")
	}
	switch cutting := t.tried[m.UID].cutting; {
	case doubt != "": // however late: it ends with the next reading that is not off
		return t.says(ctx, m, v1alpha1.PowerCutting, doubt, stepTime)
	case !cutting.IsZero() && t.Clock.Now().Sub(cutting) >= plan.GiveUp:
		return t.enter(ctx, m, v1alpha1.PowerStillOn, nil, fmt.Sprintf("its power was to be cut for %s, and it does not read off (%s): look at it", plan.GiveUp, saying(is.Power, err)))
	case errors.Is(err, power.ErrLogin):
		t.cutsNow(m)
		return t.says(ctx, m, v1alpha1.PowerCutting, err.Error(), t.afterError(m, err))
	case t.Clock.Now().Sub(t.tried[m.UID].sent) < plan.Repeat:
		return stepTime, nil
	}
	why, asOf, err := t.stopped(ctx, m)
	if err != nil {
		return 0, err
	}
	if why != "" { // an off that was sent may take effect yet: then it reads off
		known := t.tried[m.UID]
		known.asked, known.asking, known.cutting = "", time.Time{}, time.Time{} // it is asked anew, when it may be
		t.tried[m.UID] = known
		return t.enter(ctx, m, v1alpha1.PowerShuttingDown, nil, "its power is not cut now: "+why)
	}
	if t.Clock.Now().Sub(asOf) > factsAge {
		return stepTime, nil
	}
	remedy.Reached(ctx, "before-off")
	t.sentNow(m)
	_, err = call(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, bmc.Off(ctx, machine, t.stillStopped(m, asOf))
	})
	if !errors.Is(err, power.ErrNotSent) {
		t.cutsNow(m)
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		t.unheardOf(m)
		return t.says(ctx, m, v1alpha1.PowerCutting, err.Error(), t.afterError(m, err))
	}
	return t.says(ctx, m, v1alpha1.PowerCutting, fmt.Sprintf("it has not shut down within %s, and was told to go off", shutdownTime), stepTime)
}

// retriesSoon is how often in a row a switch that could not be read is asked again soon.
const retriesSoon = 3

// afterError is when a switch is asked again. BMCs lock out who tries too often to log in, and one that does not answer
// holds a worker for as long as it has, of which a rack of them would hold all.
func (t *machineAtWork) afterError(m *v1alpha1.NodeMaintenance, err error) time.Duration {
	if errors.Is(err, power.ErrLogin) {
		return retrySwitch
	}
	wait := stepTime
	for failed := t.tried[m.UID].failed; failed > retriesSoon && wait < retrySwitch; failed-- {
		wait *= 2
	}
	return min(wait, retrySwitch)
}

// saying is what a switch has said last.
func saying(state power.State, err error) string {
	if err != nil {
		return err.Error()
	}
	return "it says " + string(state)
}

// unasked takes in that the operating system can't be asked now: unless it has been, its time has not begun.
func (t *machineAtWork) unasked(m *v1alpha1.NodeMaintenance) {
	known := t.tried[m.UID]
	if known.asked == "" {
		known.asking = time.Time{}
	}
	t.tried[m.UID] = known
}

func (t *machineAtWork) cutsNow(m *v1alpha1.NodeMaintenance) {
	known := t.tried[m.UID]
	if known.cutting.IsZero() {
		known.cutting = t.Clock.Now()
	}
	t.tried[m.UID] = known
}

func (t *machineAtWork) sentNow(m *v1alpha1.NodeMaintenance) {
	known := t.tried[m.UID]
	known.sent = t.Clock.Now()
	t.tried[m.UID] = known
}

// back switches on again what may be off by a maintenance that has ended.
func (t *machineAtWork) back(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (time.Duration, error) {
	now := t.ServerClock.Now()
	switch {
	case m.Spec.NodeUID != "" && t.node == nil:
		return t.enter(ctx, m, v1alpha1.PowerLeftOff, nil, "the machine is left as it is: node "+t.name+" was deleted, and the maintenance ends with its node. When nobody works on it, switch it on")
	case t.replaced(m):
		return t.enter(ctx, m, v1alpha1.PowerLeftOff, nil, "the machine is left as it is: node "+t.name+" is on another one by now. If this one is still wanted, switch it on")
	}
	restoring := m.Status.Power.Phase == v1alpha1.PowerRestoring
	if other := t.heldByAnother(m, t.all); other != "" {
		why := "the machine is left as it is, since somebody may work on it: maintenance " + other + " holds the node"
		if deadline.GivenBack(m).Sub(now) < deadline.RestoreTime/2 { // so that the time begins when that one ends
			return t.enter(ctx, m, m.Status.Power.Phase, nil, why)
		}
		return t.says(ctx, m, m.Status.Power.Phase, why, retryFacts)
	}
	if (restoring || m.DeletionTimestamp != nil) && !now.Before(deadline.GivenBack(m)) {
		return t.enter(ctx, m, v1alpha1.PowerLeftOff, nil, fmt.Sprintf("the machine is left as it is, since the maintenance ended over %s ago, and somebody may work on it. When nobody does, switch it on", deadline.RestoreTime))
	}
	if !restoring {
		return t.enter(ctx, m, v1alpha1.PowerRestoring, nil, "")
	}
	is, err := t.read(ctx, m, bmc, machine)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return t.says(ctx, m, v1alpha1.PowerRestoring, err.Error(), t.afterError(m, err))
	case is.Power == power.On && now.Sub(m.Status.Power.Since.Time) >= backIn:
		return t.enter(ctx, m, v1alpha1.PowerOn, nil, fmt.Sprintf("its power is on, and %s later the node has not booted: look at its console, unless it never went off", backIn))
	case is.Power != power.Off, t.Clock.Now().Sub(t.tried[m.UID].takenOver) < proof.Straggle, t.Clock.Now().Sub(t.tried[m.UID].sent) < proof.DefaultPlan().Repeat:
		return stepTime, nil
	}
	asOf := t.Clock.Now()
	switch is, err := t.stillBack(ctx, m); {
	case err != nil:
		return 0, err
	case !is:
		return stepTime, nil
	}
	remedy.Reached(ctx, "before-on")
	t.sentNow(m)
	_, err = call(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, bmc.On(ctx, machine, t.stillOurs(m, asOf))
	})
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return t.says(ctx, m, v1alpha1.PowerRestoring, err.Error(), t.afterError(m, err))
	}
	return t.says(ctx, m, v1alpha1.PowerRestoring, "it was switched on, and is to boot", stepTime)
}

// stillBack reports whether the machine is to be switched on by this process, read a moment before.
func (t *machineAtWork) stillBack(ctx context.Context, m *v1alpha1.NodeMaintenance) (bool, error) {
	asOf := t.Clock.Now()
	holds, err := t.API.Holds(ctx, t.name)
	if err != nil {
		return false, err
	}
	all := holds.Maintenances
	i := slices.IndexFunc(all, func(is v1alpha1.NodeMaintenance) bool { return is.UID == m.UID })
	if i < 0 || t.heldByAnother(m, all) != "" || t.Clock.Now().Sub(asOf) > factsAge {
		return false, nil
	}
	s := all[i].Status.Power
	return s != nil && s.Phase == v1alpha1.PowerRestoring && s.RunnerID == t.RunnerID, nil
}

// replaced reports whether the node is known to be on another machine.
func (t *machineAtWork) replaced(m *v1alpha1.NodeMaintenance) bool {
	if t.node == nil {
		return false
	}
	_, err := power.ParseUUID(t.node.Status.NodeInfo.SystemUUID)
	return err == nil && !t.isOurs(m)
}

// heldByAnother returns the name of another one of the maintenances that holds the node; "": none does.
func (t *machineAtWork) heldByAnother(m *v1alpha1.NodeMaintenance, all []v1alpha1.NodeMaintenance) string {
	for i := range all {
		if other := &all[i]; other.UID != m.UID && isHeldBy(other, t.node) {
			return other.Name
		}
	}
	return ""
}

// once reads the power of a machine, and whether the switch is that of this machine.
func (t *machineAtWork) once(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (power.Reading, error) {
	r, err := call(ctx, func(ctx context.Context) (power.Reading, error) { return bmc.Read(ctx, machine) })
	if err == nil {
		err = power.Check(r.GUID, machine)
	}
	known := t.tried[m.UID]
	switch {
	case err == nil:
		known.failed = 0
	case known.failed == 0:
		known.failed, known.failing = 1, t.Clock.Now()
	default:
		known.failed++
	}
	t.tried[m.UID] = known
	return r, err
}

// read returns what the power is. Off is read twice, some seconds apart, which is enough to switch it on.
func (t *machineAtWork) read(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (power.Reading, error) {
	r, err := t.once(ctx, m, bmc, machine)
	if err != nil || r.Power != power.Off {
		return r, err
	}
	timer := t.Clock.NewTimer(proof.DefaultPlan().Gap)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
		return power.Reading{}, context.Cause(ctx)
	}
	if r, err = t.once(ctx, m, bmc, machine); err == nil && r.Power != power.Off {
		r.Power = power.Changing
	}
	return r, err
}

// enter keeps a phase. Nothing of it is done before.
func (t *machineAtWork) enter(ctx context.Context, m *v1alpha1.NodeMaintenance, phase v1alpha1.PowerPhase, machine *v1alpha1.Machine, message string) (time.Duration, error) {
	now := &v1alpha1.MaintenancePowerStatus{Phase: phase, Since: metav1.NewTime(t.ServerClock.Now()), RunnerID: t.RunnerID, Message: clip(message)}
	if before := m.Status.Power; before != nil && before.BootID != "" {
		now.BootID, now.Proof, now.Held = before.BootID, before.Proof, before.Held
	} else if t.node != nil {
		now.BootID = t.node.Status.NodeInfo.BootID
	}
	remedy.Reached(ctx, "before-"+string(phase))
	err := t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) {
		s.Power = now
		if machine != nil {
			s.Machine = machine
		}
	})
	if err != nil {
		return 0, err
	}
	remedy.Reached(ctx, "after-"+string(phase))
	t.entered(ctx, m)
	return stepTime, nil
}

// entered tells people of the phase that is kept by now.
func (t *machineAtWork) entered(ctx context.Context, m *v1alpha1.NodeMaintenance) {
	phase, message := m.Status.Power.Phase, m.Status.Power.Message
	logr.FromContextOrDiscard(ctx).Info("Power of a machine in maintenance", "node", t.name, "maintenance", m.Name, "phase", phase, "message", message)
	text := fmt.Sprintf("maintenance %s: %s", m.Name, phase)
	if message != "" {
		text += ": " + message
	}
	t.Events.Event(newAuditor(t.name, t.Events).node, corev1.EventTypeNormal, eventPower, clip(text))
}

// says keeps why the phase lasts, and returns when to look again.
func (t *machineAtWork) says(ctx context.Context, m *v1alpha1.NodeMaintenance, phase v1alpha1.PowerPhase, message string, again time.Duration) (time.Duration, error) {
	message = clip(message)
	if now := m.Status.Power; now != nil && now.Phase == phase && now.Message == message {
		return again, nil
	}
	return again, t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) {
		if s.Power == nil || s.Power.Phase != phase {
			s.Power = &v1alpha1.MaintenancePowerStatus{Phase: phase, Since: metav1.NewTime(t.ServerClock.Now()), RunnerID: t.RunnerID}
		}
		s.Power.Message = message
	})
}
