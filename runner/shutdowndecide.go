package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/standing"
)

// shutdownFacts are what forbids to shut a machine down for a maintenance, read live.
type shutdownFacts struct {
	// was is the maintenance as it was decided on, is as the API server has it now; nil: it is gone.
	was, is *v1alpha1.NodeMaintenance
	// node is nil if there is none.
	node    *corev1.Node
	pause   *v1alpha1.RemediationBudget
	holds   Holds
	actions []v1alpha1.NodeAction
	// Of a policy's maintenance; nil: they are not there.
	remediation *v1alpha1.Remediation
	policy      *v1alpha1.RemedyPolicy
	asked       *v1alpha1.NodemendRemediation
	now         time.Time
}

// forbids returns why nothing may be shut down or cut now; "": nothing forbids it.
func (f shutdownFacts) forbids() string {
	return f.first(goneOn, noNodeNow, notDrained, notCordoned, peopleHold, othersHold, underWay, notByPolicy, notThatBoot)
}

// keepsPods returns why pods and volumes of a machine that is off are not to be freed; "": they are.
func (f shutdownFacts) keepsPods() string {
	if why := f.forbids(); why != "" {
		return why
	}
	return f.first(notWanted, mayAnswer, tainted)
}

func (f shutdownFacts) first(rules ...func(shutdownFacts) string) string {
	for _, rule := range rules {
		if why := rule(f); why != "" {
			return why
		}
	}
	return ""
}

// goneOn: what was decided on is another one by now, or another process goes on with it.
func goneOn(f shutdownFacts) string {
	switch {
	case f.is == nil:
		return "the maintenance is gone"
	case !wantsOff(f.is, f.node):
		return "the maintenance has ended, or does not want power: Off any more"
	case !kept(f.is):
		return "the maintenance has lost its finalizer " + v1alpha1.PowerFinalizer + ", so nothing would tell of a machine that is off"
	}
	if was, is := f.was.Status.Power, f.is.Status.Power; f.was.MayBeOff() && (is == nil || is.Phase != was.Phase || is.RunnerID != was.RunnerID) || !f.was.MayBeOff() && f.is.MayBeOff() {
		return "another remote runner goes on with it"
	}
	return ""
}

func noNodeNow(f shutdownFacts) string {
	if f.node == nil {
		return "there is no node " + f.was.Spec.NodeName
	}
	return ""
}

func notDrained(f shutdownFacts) string {
	if f.is.Spec.Drain == nil || !f.is.Drained() || f.is.Status.NodeUID != f.node.UID {
		return "the node is not drained yet"
	}
	return ""
}

// notCordoned: pods may come again.
func notCordoned(f shutdownFacts) string {
	if !f.node.Spec.Unschedulable {
		return "the node is not cordoned"
	}
	return ""
}

// peopleHold: the node is excluded, or the cluster paused.
func peopleHold(f shutdownFacts) string {
	if refusal := standing.HeldByPeople(standing.Facts{Node: f.node, Pause: f.pause}); refusal != nil {
		return refusal.Message
	}
	return ""
}

// othersHold: somebody else has taken the node out, and has not asked for the machine to be off.
func othersHold(f shutdownFacts) string {
	for i := range f.holds.Maintenances {
		if other := &f.holds.Maintenances[i]; other.UID != f.is.UID && other.KeepsActionsFrom(f.node) && other.Spec.Power != v1alpha1.PowerRequestOff {
			return fmt.Sprintf("maintenance %s (%s) holds the node, too, and does not want power: Off", other.Name, other.Spec.Reason)
		}
	}
	return ""
}

// underWay: something else acts on the machine.
func underWay(f shutdownFacts) string {
	for i := range f.actions {
		if a := &f.actions[i]; deadline.MayRun(a, f.now) || deadline.MayBeOff(a, f.now) {
			return "NodeAction " + a.Name + " is under way on the node"
		}
	}
	return ""
}

// notByPolicy holds I6 for a policy's maintenance: it is switched off only if the policy says so now.
func notByPolicy(f shutdownFacts) string {
	of := f.is.Spec.Remediation
	if of == nil {
		return ""
	}
	r := f.remediation
	if r == nil || r.UID != of.UID || r.Status.Maintenance != f.is.Name {
		return "remediation " + of.Name + ", whose step it is, is gone, or does not name it"
	}
	step := r.Step(r.Status.Step)
	if step == nil || step.Power() != v1alpha1.PowerRequestOff {
		return fmt.Sprintf("step %d of remediation %s is no maintenance with power: Off", r.Status.Step, r.Name)
	}
	hash, err := step.Hash()
	if err != nil {
		return err.Error()
	}
	for i := range f.holds.Budgets {
		if b := &f.holds.Budgets[i]; b.Pauses(f.node) {
			return "RemediationBudget " + b.Name + ", which selects the node, is paused"
		}
	}
	// The rules are those of an action of this step.
	action := &v1alpha1.NodeAction{Spec: v1alpha1.NodeActionSpec{
		NodeName: f.node.Name, NodeUID: f.is.Spec.NodeUID, Remediation: r.Name, RemediationUID: r.UID, Policy: r.Spec.Policy, StepHash: hash, Step: r.Status.Step,
	}}
	action.Name = r.Status.Action
	facts := standing.Facts{Action: action, Node: f.node, Remediation: r, Policy: f.policy, Asked: f.asked, Pause: f.pause}
	if refusal := standing.Refuses(facts); refusal != nil {
		return refusal.Message
	}
	return ""
}

// notThatBoot: the machine can't be told from others, or has booted since.
func notThatBoot(f shutdownFacts) string {
	info := &f.node.Status.NodeInfo
	uuid, err := power.ParseUUID(info.SystemUUID)
	switch {
	case err != nil:
		return "the node can't be told from others: its systemUUID: " + err.Error()
	case info.BootID == "":
		return "the node has no boot ID (status.nodeInfo.bootID), so nobody could see that it has booted"
	case !f.was.MayBeOff():
		return ""
	case f.was.Status.Power.BootID != info.BootID:
		return "the node has booted since: boot ID " + f.was.Status.Power.BootID + ", now " + info.BootID
	case f.was.Status.Machine == nil || f.was.Status.Machine.UUID != uuid.String():
		return "the node is of another machine by now"
	}
	return ""
}

// notWanted: the maintenance, or the step whose it is, does not say outOfService.
func notWanted(f shutdownFacts) string {
	switch r := f.remediation; {
	case !f.is.Spec.OutOfService:
		return "the maintenance does not say outOfService any more"
	case f.is.Spec.Remediation != nil && !r.Step(r.Status.Step).OutOfService():
		return fmt.Sprintf("step %d of remediation %s does not say outOfService", r.Status.Step, r.Name)
	default:
		return ""
	}
}

// mayAnswer: a node that answers is not off, whatever its switch says.
func mayAnswer(f shutdownFacts) string {
	if ready := v1alpha1.FindNodeCondition(f.node, string(corev1.NodeReady)); ready == nil || ready.Status != corev1.ConditionUnknown {
		return "Ready of the node is not Unknown yet, so nobody says that it does not answer"
	}
	return ""
}

// tainted: somebody frees them, or has freed them.
func tainted(f shutdownFacts) string {
	if _, marked := f.node.Annotations[v1alpha1.OutOfServiceAnnotation]; marked || v1alpha1.IsOutOfService(f.node) {
		return "the taint out-of-service is set"
	}
	return ""
}

// notAllowed is why nothing is switched off without the flag.
const notAllowed = "the remote runner may not switch machines off for maintenances: set remoteRunner.maintenancePower of the chart"

// stopped is forbidden for what has begun: by another process perhaps, which was let.
func (t *machineAtWork) stopped(ctx context.Context, m *v1alpha1.NodeMaintenance) (why string, asOf time.Time, err error) {
	switch {
	case !t.Power:
		return notAllowed, t.Clock.Now(), nil
	case t.DryRun:
		return "dry run", t.Clock.Now(), nil
	}
	return t.forbidden(ctx, m)
}

// stillStopped asks whether the machine may be stopped, by what was read as of then, or by what is read now if that is
// old.
func (t *machineAtWork) stillStopped(m *v1alpha1.NodeMaintenance, asOf time.Time) power.Still {
	return func(ctx context.Context) error {
		if t.Clock.Since(asOf) <= factsAge {
			return nil
		}
		why, asOf, err := t.stopped(ctx, m)
		switch took := t.Clock.Since(asOf); {
		case err != nil:
			return err
		case why != "":
			return errors.New(why)
		case took > factsAge:
			return fmt.Errorf("it took %s to read whether it may be, which is too long", took.Round(time.Millisecond))
		}
		return nil
	}
}

// stillOurs is stillStopped for switching it on, by this process.
func (t *machineAtWork) stillOurs(m *v1alpha1.NodeMaintenance, asOf time.Time) power.Still {
	return func(ctx context.Context) error {
		if t.Clock.Since(asOf) <= factsAge {
			return nil
		}
		switch is, err := t.stillBack(ctx, m); {
		case err != nil:
			return err
		case !is:
			return errors.New("somebody else holds the node, or goes on with it, or it took too long to read that")
		}
		return nil
	}
}

// forbidden reads all that forbids to shut the machine down, and returns why it may not be; "": it
// may, as of when the reading began, by the clock of this process.
func (t *machineAtWork) forbidden(ctx context.Context, m *v1alpha1.NodeMaintenance) (why string, asOf time.Time, err error) {
	asOf = t.Clock.Now()
	f, err := t.shutdownFacts(ctx, m)
	if err != nil {
		return "", asOf, err
	}
	return f.forbids(), asOf, nil
}

func (t *machineAtWork) shutdownFacts(ctx context.Context, m *v1alpha1.NodeMaintenance) (f shutdownFacts, err error) {
	f = shutdownFacts{was: m, now: t.ServerClock.Now()}
	if f.node, err = t.API.Node(ctx, t.name); err != nil {
		return f, err
	}
	if f.actions, err = t.API.Actions(ctx, t.name); err != nil {
		return f, err
	}
	if of := m.Spec.Remediation; of != nil {
		if f.remediation, err = t.API.Remediation(ctx, of.Name); err != nil {
			return f, err
		}
	}
	if r := f.remediation; r != nil {
		if f.policy, err = t.API.Policy(ctx, r.Spec.Policy.Name); err != nil {
			return f, err
		}
		if r.Spec.Request != nil {
			if f.asked, err = t.API.Request(ctx, r.Spec.Request); err != nil {
				return f, err
			}
		}
	}
	// What people say comes last.
	if f.pause, err = t.API.Budget(ctx, v1alpha1.ClusterPauseBudget); err != nil {
		return f, err
	}
	if f.holds, err = t.API.Holds(ctx, t.name); err != nil {
		return f, err
	}
	if i := slices.IndexFunc(f.holds.Maintenances, func(is v1alpha1.NodeMaintenance) bool { return is.UID == m.UID }); i >= 0 {
		f.is = &f.holds.Maintenances[i]
	}
	return f, nil
}
