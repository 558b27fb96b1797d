package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

const (
	// relight is when a light is switched on again that shines until it is switched off: its BMC may
	// have restarted.
	relight = 10 * time.Minute
	// retryDark is when a BMC is asked again to put a light out, for which the maintenance waits.
	retryDark = 15 * time.Second
	// retryLamp is when a BMC is asked again that has no lamp: its firmware may be another one by then.
	retryLamp = 24 * time.Hour
)

// wantsLight reports whether the light of the node's machine is to shine for the maintenance.
func wantsLight(m *v1alpha1.NodeMaintenance, node *corev1.Node) bool {
	return m.Spec.Identify && isHeldBy(m, node)
}

// isHeldBy reports whether the maintenance holds the node, nil if there is none: then one that
// follows the name goes on.
func isHeldBy(m *v1alpha1.NodeMaintenance, node *corev1.Node) bool {
	if node == nil {
		return m.DeletionTimestamp == nil && m.Spec.NodeUID == ""
	}
	return m.Holds(node)
}

// lights switches the light on for the maintenances that want it, and then off for the others: so
// none goes out that another one wants.
func (t *machineAtWork) lights(ctx context.Context) (again time.Duration, err error) {
	for _, shine := range []bool{true, false} {
		for i := range t.all {
			m := &t.all[i]
			var wait time.Duration
			switch wants := wantsLight(m, t.node); {
			case wants != shine:
				continue
			case wants:
				wait, err = t.light(ctx, m)
			case m.MayShine():
				wait, err = t.putOut(ctx, m)
			}
			if err != nil {
				return 0, fmt.Errorf("the light of node %s, for maintenance %s: %w", t.name, m.Name, err)
			}
			again = soonest(again, wait)
		}
	}
	return again, nil
}

// waits returns how long the next try for the light takes yet; 0: it is due.
func (t *machineAtWork) waits(m *v1alpha1.NodeMaintenance, lit bool) time.Duration {
	if before, is := t.tried[m.UID]; is && before.lit == lit {
		return max(0, before.next.Sub(t.Clock.Now()))
	}
	return 0
}

// light switches the light on, and again before it goes out by itself.
func (t *machineAtWork) light(ctx context.Context, m *v1alpha1.NodeMaintenance) (time.Duration, error) {
	if wait := t.waits(m, true); wait > 0 {
		return wait, nil
	}
	if !kept(m) { // by the controller, soon
		return 0, nil
	}
	machine := m.Status.Machine
	switch known, err := t.machineOf(); {
	case t.node == nil && m.MayShine(): // it shines on
	case err != nil:
		return t.unlit(ctx, m, err)
	case machine == nil || machine.UUID != known.UUID || !m.MayShine() && !m.MayBeOff():
		if m.MayShine() { // that of another machine, which had this name before
			if wait, err := t.putOut(ctx, m); err != nil || m.MayShine() {
				return wait, err
			}
		}
		if m.MayBeOff() {
			return t.unlit(ctx, m, errors.New("another machine is off for this maintenance"))
		}
		machine = known
	}
	lamp, uuid, err := t.switchOf(machine)
	if err != nil {
		return t.unlit(ctx, m, err)
	}
	if t.DryRun {
		return t.unlit(ctx, m, fmt.Errorf("dry run: this runner would switch it on by %s", lamp))
	}
	shone := m.MayShine()
	if !shone {
		switch err := t.alone(ctx, uuid); {
		case errors.Is(err, errNoMachine):
			return t.unlit(ctx, m, err)
		case err != nil:
			return 0, err
		}
		// Most that is wrong shows here, before anything is announced.
		switch _, err := t.once(ctx, m, lamp, uuid); {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			return t.unlit(ctx, m, err)
		}
		err := t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) {
			s.Machine = machine
			s.Identify = t.lightIs(s.Identify, v1alpha1.LightUnknown, "it is being switched on")
		})
		if err != nil {
			return 0, err
		}
	}
	lasts, err := t.identify(ctx, lamp, uuid, true)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err == nil && lasts > 0:
		return t.told(ctx, m, true, v1alpha1.LightOn, "", lasts/2)
	case err == nil:
		return t.told(ctx, m, true, v1alpha1.LightOn, "", relight)
	case !shone && errors.Is(err, power.ErrUnsupported):
		return t.told(ctx, m, true, v1alpha1.LightOff, err.Error(), retryLamp)
	case !shone && nothingSwitched(err):
		return t.told(ctx, m, true, v1alpha1.LightOff, err.Error(), retryConfig)
	default:
		return t.told(ctx, m, true, v1alpha1.LightUnknown, err.Error(), retrySwitch)
	}
}

// lampTime is how long the lamp of a machine has, for all maintenances together, while that is read: a reading that
// comes later than proof.Plan.Repeat after the one before begins anew what shows that it is off.
const lampTime = 5 * time.Second

// identify switches a lamp.
func (t *machineAtWork) identify(ctx context.Context, lamp power.Switch, machine power.UUID, on bool) (time.Duration, error) {
	if slices.ContainsFunc(t.all, func(m v1alpha1.NodeMaintenance) bool {
		known := t.tried[m.UID]
		return known.read.goesOn(t.Clock.Now()) || m.Spec.OutOfService && m.Status.Power != nil && m.Status.Power.Phase == v1alpha1.PowerOff
	}) {
		if t.lampEnd.IsZero() {
			t.lampEnd = t.Clock.Now().Add(lampTime)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.lampEnd.Sub(t.Clock.Now()))
		defer cancel()
	}
	return call(ctx, func(ctx context.Context) (time.Duration, error) { return lamp.Identify(ctx, machine, on) })
}

// kept reports whether the maintenance can't vanish before what was switched for it is switched
// back.
func kept(m *v1alpha1.NodeMaintenance) bool {
	for _, finalizer := range m.Finalizers {
		if finalizer == v1alpha1.PowerFinalizer {
			return true
		}
	}
	return false
}

// nothingSwitched reports whether it is sure that a switch has done nothing.
func nothingSwitched(err error) bool {
	for _, sure := range []error{power.ErrOtherMachine, power.ErrNoIdentity, power.ErrLogin} {
		if errors.Is(err, sure) {
			return true
		}
	}
	return false
}

// putOut switches the light off.
func (t *machineAtWork) putOut(ctx context.Context, m *v1alpha1.NodeMaintenance) (time.Duration, error) {
	if wait := t.waits(m, false); wait > 0 {
		return wait, nil
	}
	machine := m.Status.Machine
	if machine == nil { // nothing was switched before that was kept
		return t.told(ctx, m, false, v1alpha1.LightOff, "", 0)
	}
	for i := range t.all {
		other := &t.all[i]
		if other.UID != m.UID && wantsLight(other, t.node) && other.MayShine() && other.Status.Machine != nil && other.Status.Machine.UUID == machine.UUID {
			return t.told(ctx, m, false, v1alpha1.LightOff, "maintenance "+other.Name+" has the light on", 0)
		}
	}
	lamp, uuid, err := t.switchOf(machine)
	if err == nil {
		_, err = t.identify(ctx, lamp, uuid, false)
	}
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err == nil:
		return t.told(ctx, m, false, v1alpha1.LightOff, "", 0)
	case errors.Is(err, power.ErrUnsupported):
		return t.told(ctx, m, false, v1alpha1.LightOff, "it may still shine, and can't be put out: "+err.Error(), 0)
	default:
		return t.told(ctx, m, false, v1alpha1.LightUnknown, "it could not be put out: "+err.Error(), max(retryDark, t.afterError(m, err)))
	}
}

// unlit says why a light is not switched on.
func (t *machineAtWork) unlit(ctx context.Context, m *v1alpha1.NodeMaintenance, why error) (time.Duration, error) {
	state := v1alpha1.LightOff
	if m.MayShine() {
		state = v1alpha1.LightUnknown
	}
	return t.told(ctx, m, true, state, why.Error(), retryConfig)
}

// told keeps what has become of a try, and when the next one is due.
func (t *machineAtWork) told(ctx context.Context, m *v1alpha1.NodeMaintenance, lit bool, state v1alpha1.LightState, message string, next time.Duration) (time.Duration, error) {
	message = clip(message)
	if now := m.Status.Identify; now == nil || now.State != state || now.Message != message {
		err := t.write(ctx, m, func(s *v1alpha1.NodeMaintenanceStatus) { s.Identify = t.lightIs(s.Identify, state, message) })
		if err != nil {
			return 0, err
		}
	}
	known := t.tried[m.UID]
	known.lit, known.next = lit, t.Clock.Now().Add(next)
	t.tried[m.UID] = known
	return next, nil
}

// lightIs is the status of a light that is so now.
func (t *machineAtWork) lightIs(before *v1alpha1.IdentifyStatus, state v1alpha1.LightState, message string) *v1alpha1.IdentifyStatus {
	now := &v1alpha1.IdentifyStatus{State: state, Message: message, Since: metav1.NewTime(t.ServerClock.Now())}
	if before != nil && before.State == state {
		now.Since = before.Since
	}
	return now
}
