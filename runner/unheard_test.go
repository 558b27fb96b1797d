package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// The node answers for a moment, and its action says so, but nobody hears whether that was written.
// When the node is silent again, the write may still arrive.
func TestNoOffIsSentOnceNoneMayBeAllowedAnyMore(t *testing.T) {
	d := newDeadNode(t)
	d.deaf = true
	refused := false
	d.slow = func(a *v1alpha1.NodeAction) error {
		switch {
		case a.Status.Power == nil || a.Status.Power.Phase != string(proof.Watching):
			return nil
		case d.onItsWay == nil:
			d.hung = true
			d.pass(v1alpha1.Silence) // the API server is asked in vain for so long
			return context.DeadlineExceeded
		case !refused: // the repeated one, which says nothing of the first
			refused = true
			return apierrors.NewTooManyRequests("later", 1)
		}
		return nil
	}
	d.happens = func(int) {
		if d.offs == 1 && d.onItsWay == nil {
			d.hung, d.wokeAt = false, d.now
		}
	}
	d.work()
	d.ended(v1alpha1.ReasonPowerStillOn, "the node answers again")
	if d.offs != 1 || d.onItsWay == nil || !refused {
		t.Errorf("%d offs\n%s", d.offs, d.story())
	}
}

// A person pauses the cluster for a moment. The action ends for that, but nobody hears whether it has.
func TestNoMachineIsDeletedOnceItsActionMayHaveEnded(t *testing.T) {
	d := newDeadNode(t)
	step := v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}, Timeout: v1alpha1.Duration{Duration: time.Hour}}
	d.policy.Spec.Steps = []v1alpha1.Step{step}
	d.remediation.Spec.Steps = d.policy.Spec.Steps
	d.action.Spec.StepHash, d.action.Spec.Timeout = hashOf(t, &step), step.Timeout
	d.slow = func(a *v1alpha1.NodeAction) error {
		if d.onItsWay == nil && a.Finished() != nil {
			return context.DeadlineExceeded
		}
		return nil
	}
	d.happens = func(int) {
		d.pause = nil
		if d.action.Status.Claim != nil && d.onItsWay == nil {
			d.pause = clusterPause()
		}
	}
	w := d.worker("runner-0")
	w.Machines = oneMachine{d}
	for range 5 {
		if err := d.run(w); err != nil {
			d.note("%v", err)
		}
		d.pass(time.Second)
	}
	d.ended(v1alpha1.ReasonRefused, "pause")
}

// oneMachine is that of the node.
type oneMachine struct{ *deadNode }

func (m oneMachine) Of(context.Context, *corev1.Node, *v1alpha1.Request) (Machine, string, error) {
	return Machine{Object: v1alpha1.ExternalObject{Kind: "Machine", Name: "m1", UID: "m1"}, Method: v1alpha1.ReplaceRemediate}, "", nil
}

func (m oneMachine) Send(context.Context, Machine, string) error {
	m.mayAct()
	m.Errorf("the machine is deleted\n%s", m.story())
	return nil
}

func (oneMachine) TakeBack(context.Context, *v1alpha1.ReplaceStatus, MachineSeen) error { return nil }

func (oneMachine) Look(context.Context, *v1alpha1.ReplaceStatus, string, time.Time) (MachineSeen, error) {
	return MachineSeen{There: true}, nil
}

func (oneMachine) Group(context.Context, *v1alpha1.ReplaceStatus) (MachineGroup, error) {
	return MachineGroup{Wants: -1}, nil
}

// A person pauses the cluster for a moment, when the machine is about to be cut, or asked to shut down
// again. The maintenance says so, but nobody hears whether that was written.
func TestNoMachineIsStoppedOnceItsMaintenanceMayForbidIt(t *testing.T) {
	r := newRack(t, switchedOff)
	r.listens, r.deaf = false, true
	r.slow = func(m *v1alpha1.NodeMaintenance) bool {
		p := m.Status.Power
		return r.onItsWay == nil && p != nil && p.Phase == v1alpha1.PowerShuttingDown && strings.Contains(p.Message, "is not cut now")
	}
	offs := func() int { return len(r.stops) - len(r.shutdowns) }
	r.happens = func(int) {
		r.pause = nil
		if r.onItsWay == nil && offs() == 1 {
			r.pause = clusterPause()
		}
	}
	r.run(11 * time.Minute)
	if r.onItsWay == nil || len(r.shutdowns) < 2 {
		t.Errorf("on its way: %v, asked were %v\n%s", r.onItsWay, r.shutdowns, r.story())
	}
}

// The node is gone for a moment, so its machine is left as it is. The maintenance says so, but nobody hears whether that was
// written.
func TestNoMachineIsSwitchedOnOnceItMayHaveBeenLeftAsItIs(t *testing.T) {
	r := newRack(t, switchedOff, byPolicy).withPolicy()
	r.run(2 * time.Minute)
	r.power(v1alpha1.PowerOff, "")
	r.slow = func(m *v1alpha1.NodeMaintenance) bool {
		return r.onItsWay == nil && m.Status.Power != nil && m.Status.Power.Phase == v1alpha1.PowerLeftOff
	}
	r.happens = func(int) {
		m := r.of("repair")
		r.nodeGone = m != nil && m.Status.Power.Phase == v1alpha1.PowerRestoring && r.onItsWay == nil
	}
	r.frozen = true
	r.end("repair")
	r.run(time.Minute)
	r.power(v1alpha1.PowerLeftOff, "was deleted")
	if r.onItsWay == nil || r.ons > 0 {
		t.Errorf("on its way: %v, %d ons\n%s", r.onItsWay, r.ons, r.story())
	}
}

func TestWhichWritesMayArrive(t *testing.T) {
	actions := schema.GroupResource{Resource: "nodeactions"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{apierrors.NewConflict(actions, "action", nil), false},
		{apierrors.NewNotFound(actions, "action"), false},
		{fmt.Errorf("wrapped: %w", apierrors.NewInvalid(schema.GroupKind{}, "action", nil)), false},
		{apierrors.NewForbidden(actions, "action", nil), true},
		{apierrors.NewTooManyRequests("later", 1), true},
		{apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		{apierrors.NewTimeoutError("request did not complete within requested timeout", 1), true},
		{context.DeadlineExceeded, true},
		{io.ErrUnexpectedEOF, true},
	} {
		if got := mayArrive(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}
