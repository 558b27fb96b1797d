package remediation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// disruptive is an incident whose steps are a command, a reboot and a maintenance. The
// node is Ready.
func disruptive(options ...func(*situation)) situation {
	drained := &v1alpha1.Drain{Timeout: seconds(600), OnTimeout: v1alpha1.OnTimeoutWait}
	return incident(slices.Concat([]func(*situation){func(s *situation) {
		steps := slices.Concat(s.remediation.Spec.Steps[:1], []v1alpha1.Step{
			{Reboot: &v1alpha1.RebootRemedy{Drain: drained}, Timeout: seconds(10), VerifyTimeout: seconds(60), Attempts: 1},
			{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "nothing helped", Drain: drained}, Timeout: seconds(10), VerifyTimeout: seconds(60), Attempts: 1},
		})
		s.remediation.Spec.Steps, s.policy.Spec.Steps = steps, steps
	}, kubelet("True")}, options)...)
}

// kubelet sets what the kubelet, or the node controller for it, says of the node.
func kubelet(ready corev1.ConditionStatus) func(*situation) {
	return func(s *situation) {
		s.leaseRenewed = now.Add(-time.Second)
		if ready == corev1.ConditionUnknown {
			s.leaseRenewed = now.Add(-time.Hour)
		}
		s.node.Status.Conditions = append(s.node.Status.Conditions[:1:1], corev1.NodeCondition{
			Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: ago(time.Second), LastTransitionTime: ago(time.Minute)})
	}
}

// out makes the node held by the remediation's maintenance for its current step, with
// this reason of the Drained condition.
func out(reason string) func(*situation) {
	return func(s *situation) {
		s.node.Spec.Unschedulable = true
		s.node.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "m"}
		announced(s)
		progress(v1alpha1.ReasonTakingOut)(s)
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonDrained {
			status = metav1.ConditionTrue
		}
		s.maintenance = &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: s.remediation.Status.Maintenance, CreationTimestamp: ago(time.Hour)},
			Spec:       s.wanted(s.step(s.remediation.Status.Step)),
			Status: v1alpha1.NodeMaintenanceStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.MaintenanceDrained, Status: status, Reason: reason, Message: "3 of 5 pods are gone"}}},
		}
	}
}

func TestAMaintenanceThatIsThereKeepsItsNameWhenItIsAnnouncedUnderAnotherPermit(t *testing.T) {
	s := disruptive(at(3, 1), out("Draining"), back)
	s.remediation.ResourceVersion = "2" // it was announced by an earlier one
	if d := decide(s); d.effect != takeOut || d.status.Maintenance != s.maintenance.Name {
		t.Errorf("got effect %d and maintenance %s, want %d and %s", d.effect, d.status.Maintenance, takeOut, s.maintenance.Name)
	}
}

func TestEachAnnouncementOfAMaintenanceHasANameOfItsOwn(t *testing.T) {
	r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "a", ResourceVersion: "1"}}
	first := maintenanceName(r)
	if again := maintenanceName(r); again != first {
		t.Errorf("the same announcement has the names %s and %s", first, again)
	}
	later, recreated := r.DeepCopy(), r.DeepCopy()
	later.ResourceVersion, recreated.UID = "2", "b"
	for _, other := range []*v1alpha1.Remediation{later, recreated} {
		if name := maintenanceName(other); name == first {
			t.Errorf("another announcement has the name %s, too", name)
		}
	}
}

// announced makes the maintenance one that the status names, and nobody has created.
func announced(s *situation) {
	s.remediation.Status.Maintenance = maintenanceName(s.remediation)
	progress(v1alpha1.ReasonStarting)(s)
}

func taken(s *situation)     { s.remediation.Status.Maintenance = maintenanceName(s.remediation) }
func releasing(s *situation) { at := ago(0); s.maintenance.DeletionTimestamp = &at }
func gone(s *situation)      { s.maintenance = nil }

// back makes a node that was not Ready when its maintenance was announced one that is,
// before it was cordoned.
func back(s *situation) {
	s.node.Spec.Unschedulable, s.node.Annotations = false, nil
	budgetHeldBy(s.remediation.Name, s.node.Name)(s)
}

// disruptively makes the permit one for a disruptive step.
func disruptively(s *situation) {
	for _, g := range s.budgets[0].Status.Groups {
		for node, permit := range g.Permits {
			permit.Disruptive = true
			g.Permits[node] = permit
		}
	}
}

// cordonedOnce makes the maintenance one for which the node was cordoned.
func cordonedOnce(s *situation) {
	s.maintenance.Status.Conditions = append(s.maintenance.Status.Conditions, metav1.Condition{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue})
}

func paused(s *situation)        { s.budgets[0].Spec.Paused = true }
func manual(s *situation)        { s.remediation.Spec.Recovery.Release = v1alpha1.ReleaseManual }
func outdated(s *situation)      { s.maintenance.Generation = 2 }
func ofEarlierStep(s *situation) { s.maintenance.Spec = s.wanted(s.step(2)) }
func cordonOnly(s *situation)    { s.maintenance.Spec.Drain = nil }
func stray(s *situation) {
	s.strays = append(s.strays, v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "stray"}})
}
func cordonedByAPerson(s *situation) { s.node.Spec.Unschedulable = true }
func heldByAnother(s *situation) {
	s.held = append(s.held, v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "swap-dimm"}})
}
func bootID(node string) func(*situation) {
	return func(s *situation) {
		s.attempt.Begun.BootID, s.node.Status.NodeInfo.BootID = "a", node
	}
}

// silence is what is left of steps whose runner did not answer.
func silence(s *situation) {
	at(1, 1)(s)
	history("Expired", time.Minute)(s)
	at(3, 1)(s)
}

// booted makes the node one that is seen to have another boot ID than before.
func booted(s *situation)   { s.remediation.Status.BootID, s.node.Status.NodeInfo.BootID = "a", "b" }
func sameBoot(s *situation) { s.node.Status.NodeInfo.BootID = "a" }
func bootSeen(age time.Duration) func(*situation) {
	return func(s *situation) {
		at := ago(age)
		s.remediation.Status.BootID, s.remediation.Status.BootedAt = "b", &at
	}
}

func TestWhatComesNextForAStepThatTakesTheNodeOut(t *testing.T) {
	const long = -time.Hour // left of what a runner may take
	overdue := func(s *situation) { acts(s, func(a *v1alpha1.NodeAction) { a.Spec.ExpiresAt = ago(-long) }) }
	recovered := condition("False", time.Second, time.Minute)
	decideAll(t, []next{
		{"a reboot takes the node out first", disruptive(at(2, 1)), takeOut, "Starting", "", 2, 1, 0},
		{"a maintenance takes the node out", disruptive(at(3, 1)), takeOut, "Starting", "", 3, 1, 0},
		{"not while another holds it", disruptive(at(3, 1), heldByAnother), release, "Waiting", "InMaintenance", 3, 1, 0},
		{"what was announced and is not there is created", disruptive(at(3, 1), announced), takeOut, "Starting", "", 3, 1, 0},
		{"the former maintenance ends first", disruptive(at(3, 1), stray), release, "Waiting", "", 3, 1, 0},
		{"pods are awaited", disruptive(at(2, 1), out("Draining")), nothing, "TakingOut", "", 2, 1, 0},
		{"and a maintenance that has not said anything yet", disruptive(at(2, 1), out("Draining"), outdated), nothing, "TakingOut", "", 2, 1, 0},
		{"the cordon of the remediation itself holds nothing", disruptive(at(2, 1), out("Drained")), start, "Starting", "", 2, 1, 0},
		{"the node goes off while it is drained: the drain goes on", disruptive(at(3, 1), out("Draining"), condition("True", time.Hour, time.Hour), kubelet("Unknown")), nothing, "TakingOut", "", 3, 1, 0},
		{"what is paused returns its permit, once the node is cordoned", disruptive(at(3, 1), out("Draining"), cordonOnly, paused), release, "Waiting", "Paused", 3, 1, 0},
		{"and then returns it", disruptive(at(3, 1), out(v1alpha1.ReasonDrained), cordonOnly, paused), release, "Waiting", "Paused", 3, 1, 0},
		{"a pause stops a drain", disruptive(at(3, 1), out("Draining"), paused), calm, "Waiting", "Paused", 3, 1, 0},
		{"a pause leaves a drained node out", disruptive(at(2, 1), out("Drained"), paused), release, "Waiting", "Paused", 2, 1, 0},
		{"without evidence a drained node is not rebooted", disruptive(at(2, 1), out("Drained"), condition("True", time.Hour, time.Hour)), release, "Waiting", "NoEvidence", 2, 1, 30 * time.Second},
		{"the drain of an earlier step is not that of this one", disruptive(at(3, 1), out("Drained"), func(s *situation) {
			ofEarlierStep(s)
			s.maintenance.Spec.Reason = "reboot"
		}), takeOut, "TakingOut", "", 3, 1, 0},
		{"a node that comes back before it is cordoned needs a permit for that", disruptive(at(3, 1), out("Draining"), back), takeOut, "Starting", "", 3, 1, 0},
		{"which it may have", disruptive(at(3, 1), out("Draining"), back, disruptively), nothing, "TakingOut", "", 3, 1, 0},
		{"and if it is held, too, it is not taken out", disruptive(at(3, 1), out("Draining"), back, paused), release, "Waiting", "Paused", 3, 1, 0},
		{"one that a person puts back is cordoned again without", disruptive(at(3, 1), out("Draining"), back, cordonedOnce), nothing, "TakingOut", "", 3, 1, 0},
		{"a drained node is parked without a permit", disruptive(at(3, 1), out("Drained")), release, "InMaintenance", "", 3, 1, 30 * time.Second},
		{"and stays so, however long", disruptive(at(3, 1), out("Drained"), history("Succeeded", 240*time.Hour)), release, "InMaintenance", "", 3, 1, 30 * time.Second},
		{"a drain that was given up gives the node back", disruptive(at(3, 1), out("Aborted")), release, "Waiting", "", 3, 1, time.Second},
		{"and is repeated later", disruptive(at(3, 1), history("Aborted", time.Second)), release, "Waiting", "Aborted", 3, 1, 29 * time.Second},

		{"a node that recovers while it is drained is not drained any more", disruptive(at(2, 1), out("Draining"), condition("False", time.Second, time.Second)), calm, "Healing", "", 2, 1, 29 * time.Second},
		{"and is given back", disruptive(at(2, 1), out("Draining"), recovered), release, "RecoveredByItself", "", 2, 1, 0},
		{"a parked node that has recovered is given back", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), recovered), release, "Recovered", "", 3, 1, 0},
		{"not before it is Ready", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), recovered, kubelet("False")), release, "InMaintenance", "", 3, 1, 30 * time.Second},
		{"a node that is switched off has not recovered", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), condition("False", 8*time.Minute, time.Hour), kubelet("Unknown")), release, "InMaintenance", "", 3, 1, 30 * time.Second},
		{"a healthy report from before it was drained proves nothing", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Second), condition("False", 2*time.Second, time.Hour)), release, "InMaintenance", "", 3, 1, 30 * time.Second},
		{"paused, and nobody cares any more: it is given back", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), recovered, paused, policyDeleted, excluded, withoutBudget), release, "Recovered", "", 3, 1, 0},
		{"unless a person is to do that", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), recovered, manual), release, "Healing", "ReleaseRequired", 3, 1, 0},
		{"who has done so", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), recovered, manual, gone), release, "Recovered", "", 3, 1, 0},
		{"and is about to", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), recovered, manual, releasing), release, "Recovered", "", 3, 1, 0},
		{"given back while it was clear, it is sick again", disruptive(at(3, 1), history("Succeeded", time.Hour), progress("Healing")), release, "Exhausted", "", 3, 1, 0},
		{"a person gives a sick node back", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), releasing), release, "Released", "", 3, 1, 0},
		{"and it was gone at once, before a runner claimed the action", disruptive(at(2, 1), out("Drained"), underway(10*time.Second, finished("Cancelled", 0)), progress("Starting"), gone), release, "Released", "", 2, 1, 0},
		{"and it was gone at once", disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), gone), release, "Released", "", 3, 1, 0},

		{"a reboot that is under way is awaited, whoever gives the node back", disruptive(at(2, 1), out("Drained"), underway(0, claimed(0)), progress("Acting"), gone), nothing, "Acting", "", 2, 1, 160 * time.Second},
		{"a reboot that helped", disruptive(at(2, 1), out("Drained"), history("Succeeded", 2*time.Minute), recovered), release, "Recovered", "", 2, 1, 0},
		{"a node that is not Ready after a reboot has not recovered", disruptive(at(2, 1), out("Drained"), history("Succeeded", time.Second), condition("False", 0, 0), kubelet("False")), nothing, "Verifying", "", 2, 1, 59 * time.Second},
		{"a reboot in vain: the node stays out for the next step", disruptive(at(2, 1), out("Drained"), history("Succeeded", time.Hour)), takeOut, "TakingOut", "", 3, 1, 0},
		{"another boot ID proves a reboot that nobody has reported", disruptive(at(2, 1), out("Drained"), underway(time.Hour, claimed(time.Hour)), overdue, bootID("b")), nothing, "Acting", "", 2, 1, time.Second},
		{"a node that has not come back", disruptive(at(2, 1), out("Drained"), underway(time.Hour, claimed(time.Hour)), overdue, bootID("a"), kubelet("Unknown")), nothing, "Acting", "", 2, 1, time.Second},
		{"a node that is there and says nothing needs a person", disruptive(at(2, 1), out("Drained"), underway(time.Hour, claimed(time.Hour)), overdue, bootID("a")), release, "Acting", "NoReport", 2, 1, 0},
		{"a node that has not come back goes to the next step that needs no runner", disruptive(at(2, 1), out("Drained"), history("NotBack", time.Minute), condition("True", time.Hour, time.Hour), kubelet("Unknown")), takeOut, "TakingOut", "", 3, 1, 0},
		{"once its silence is one from after that", disruptive(at(2, 1), out("Drained"), history("NotBack", time.Second), condition("True", time.Hour, time.Hour), kubelet("Unknown")), release, "Waiting", "NoEvidence", 3, 1, 30 * time.Second},

		{"a runner that does not answer on a node that is not Ready", disruptive(at(1, 1), kubelet("False"), history("Expired", 2*time.Hour), history("Expired", time.Hour)), takeOut, "Starting", "", 3, 1, 0},
		{"its silence is what is wrong by then", disruptive(at(3, 1), kubelet("Unknown"), condition("True", time.Hour, time.Hour), silence), takeOut, "Starting", "", 3, 1, 0},
		{"and until it is Ready it has not recovered", disruptive(at(3, 1), kubelet("False"), condition("False", time.Second, time.Hour), silence), takeOut, "Starting", "", 3, 1, 0},
		{"what was seen before the node booted by itself proves nothing", disruptive(at(2, 1), booted), release, "Waiting", "NoEvidence", 2, 1, 30 * time.Second},
		{"of a drained node neither", disruptive(at(2, 1), out("Drained"), booted), release, "Waiting", "NoEvidence", 2, 1, 30 * time.Second},
		{"what was seen since does", disruptive(at(2, 1), booted, bootSeen(time.Minute)), takeOut, "Starting", "", 2, 1, 0},
		{"a kubelet that restarts is no boot", disruptive(at(2, 1), booted, sameBoot, kubelet("False")), takeOut, "Starting", "", 2, 1, 0},
		{"is asked twice", disruptive(at(1, 1), kubelet("False"), history("Expired", time.Hour)), start, "Starting", "", 1, 1, 0},
		{"and as long as the node is Ready", disruptive(at(1, 1), history("Expired", 2*time.Hour), history("Expired", time.Hour)), start, "Starting", "", 1, 1, 0},
		{"left out steps come first once the node is Ready", disruptive(at(3, 1), silence, condition("True", time.Second, time.Hour)), start, "Starting", "", 1, 1, 0},
		{"unless the node is taken out already", disruptive(at(3, 1), silence, out("Draining"), condition("True", time.Second, time.Hour)), nothing, "TakingOut", "", 3, 1, 0},
		{"who was given up as silent is acted on once it is Ready", incident(at(1, 1), progress("Exhausted"), history("Expired", 2*time.Hour), history("Expired", time.Hour)), start, "Starting", "", 1, 1, 0},
		{"and not before", incident(at(1, 1), kubelet("Unknown"), progress("Exhausted"), history("Expired", 2*time.Hour), history("Expired", time.Hour)), release, "Exhausted", "", 1, 1, 0},
		{"a node that is back late gets the next attempt", disruptive(at(2, 1), out("Drained"), history("NotBack", time.Hour), condition("True", time.Second, time.Hour)), takeOut, "TakingOut", "", 3, 1, 0},
		{"on evidence since then", disruptive(at(2, 1), out("Drained"), history("NotBack", time.Hour), condition("True", 2*time.Hour, 3*time.Hour)), release, "TakingOut", "NoEvidence", 2, 1, 30 * time.Second},
		{"and time to recover by itself", disruptive(at(2, 1), out("Drained"), history("NotBack", time.Second), condition("True", 0, time.Hour)), nothing, "Verifying", "", 2, 1, 59 * time.Second},
		{"without such a step it is exhausted", incident(at(1, 1), kubelet("False"), history("Expired", 2*time.Hour), history("Expired", time.Hour)), release, "Exhausted", "", 1, 1, 0},

		{"deleted by a person while the node is drained: nothing more is evicted", disruptive(at(3, 1), out("Draining"), byAPerson), calm, "TakingOut", "", 3, 1, time.Second},
		{"a sick node stays out", disruptive(at(3, 1), out("Drained"), byAPerson), release, "Deleted", "", 3, 1, 0},
		{"a healthy one is given back", disruptive(at(3, 1), out("Drained"), condition("False", time.Second, time.Minute), byAPerson), release, "Deleted", "", 3, 1, 0},
		{"announced, and then held: nobody has released anything", disruptive(at(3, 1), announced, paused), release, "Waiting", "Paused", 3, 1, 0},
		{"announced, and then cordoned by a person", disruptive(at(3, 1), announced, cordonedByAPerson), release, "Waiting", "Cordoned", 3, 1, 0},
		{"announced, and then clear", disruptive(at(3, 1), announced, recovered), release, "RecoveredByItself", "", 3, 1, 0},
		{"a reboot that nobody has claimed is cancelled when a person gives the node back", disruptive(at(2, 1), out("Drained"), underway(time.Second), progress("Acting"), releasing), cancel, "Acting", "", 2, 1, 0},
		{"and when pods have come", disruptive(at(2, 1), out("Draining"), underway(time.Second), progress("Acting")), cancel, "Acting", "", 2, 1, 0},
		{"and is not created then", disruptive(at(2, 1), out("Drained"), underway(0), deleted, progress("Starting"), gone), void, "Starting", "", 2, 1, 0},
		{"a drain that takes for ever keeps no permit", disruptive(at(3, 1), out("TimedOut")), release, "TakingOut", "DrainTimedOut", 3, 1, 0},
		{"nor does one that a pod vetoes", disruptive(at(3, 1), out("Vetoed")), release, "TakingOut", "DrainVetoed", 3, 1, 0},
		{"a node that is not Ready and has no other fault needs what no runner does", disruptive(at(2, 1), out("Drained"), condition("False", time.Second, time.Second), kubelet("False")), takeOut, "TakingOut", "", 3, 1, 0},
		{"the drain of a node that waits for its release goes no further", disruptive(at(2, 1), out("Draining"), recovered, manual), calm, "Healing", "ReleaseRequired", 2, 1, 0},
		{"exhausted, the node stays out", disruptive(at(3, 1), taken, out("Drained"), progress("Exhausted")), release, "Exhausted", "", 3, 1, 30 * time.Second},
	})
}

// The maintenance that an ended remediation does not name is deleted: that gives the
// node back.
func TestWhichNodeStaysOutAtTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		s     situation
		stays bool
	}{
		"recovered":                  {disruptive(at(3, 1), out("Drained"), condition("False", time.Second, time.Minute)), false},
		"released":                   {disruptive(at(3, 1), out("Drained"), history("Succeeded", time.Hour), releasing), false},
		"deleted, sick, and not out": {disruptive(at(3, 1), out("Draining"), back, byAPerson), false},
		"deleted and healthy":        {disruptive(at(3, 1), out("Drained"), condition("False", time.Second, time.Minute), byAPerson), false},
		"deleted and sick":           {disruptive(at(3, 1), out("Drained"), byAPerson), true},
		"deleted and released":       {disruptive(at(3, 1), out("Drained"), byAPerson, releasing), false},
		"the node is gone":           {disruptive(at(3, 1), out("Drained"), nodeGone), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tt.s)
			if d.status.EndTime == nil {
				t.Fatal("it has not ended")
			}
			if stays := d.status.Maintenance != ""; stays != tt.stays {
				t.Errorf("maintenance %q, want one: %v", d.status.Maintenance, tt.stays)
			}
			r := v1alpha1.Remediation{Status: d.status}
			if text := message(&r, v1alpha1.RemediationProgressing); tt.stays != strings.Contains(text, "kubectl delete nodemaintenance "+maintenanceName(tt.s.remediation)) {
				t.Errorf("people are told %q", text)
			}
		})
	}
}

func TestWhatIsHeldIsNotTakenOutOfServiceAfterAll(t *testing.T) {
	verdict := gates.Verdict{Reason: gates.ReasonPaused}
	for name, tt := range map[string]struct {
		status v1alpha1.RemediationStatus
		named  bool
	}{
		"announced, and not there":          {heldBack(disruptive(at(3, 1), announced), verdict).status, false},
		"not cordoned, and without permits": {heldBack(disruptive(at(3, 1), out("Draining"), back), verdict).status, false},
		"paused by then":                    {decide(disruptive(at(3, 1), out("Draining"), back, paused)).status, false},
		"out":                               {heldBack(disruptive(at(3, 1), out("Draining")), verdict).status, true},
	} {
		if named := tt.status.Maintenance != ""; named != tt.named {
			t.Errorf("%s: maintenance %q", name, tt.status.Maintenance)
		}
	}
}

func TestAMaintenanceSaysWhyAndForWhom(t *testing.T) {
	d := decide(disruptive(at(3, 1)))
	m := d.maintenance
	if m.NodeName != "n1" || m.NodeUID != "node-uid" || m.RequestedBy != "policy p" || m.Remediation.UID != "remediation-uid" {
		t.Errorf("got %+v", m)
	}
	if m.Drain == nil || m.Drain.Timeout != seconds(600) || !strings.HasPrefix(m.Reason, "nothing helped") {
		t.Errorf("got %+v", m)
	}
	if d = decide(disruptive(at(3, 1), out("Draining"), paused)); d.maintenance.Drain != nil || d.maintenance.NodeName != "n1" {
		t.Errorf("paused, it is to be %+v", d.maintenance)
	}
}

// What has not changed is not written again.
func TestADrainThatIsStuckIsShownOnce(t *testing.T) {
	s := disruptive(at(3, 1), out("TimedOut"))
	s.remediation.Status = decide(s).status
	before := s.remediation.DeepCopy()
	s.now = s.now.Add(time.Minute)
	if diff := cmp.Diff(before.Status, decide(s).status); diff != "" {
		t.Errorf("a minute later (-before +after):\n%s", diff)
	}
}

func TestWhatBecameOfARebootIsRemembered(t *testing.T) {
	overdue := func(s *situation) { acts(s, func(a *v1alpha1.NodeAction) { a.Spec.ExpiresAt = ago(time.Hour) }) }
	for outcome, s := range map[string]situation{
		v1alpha1.ReasonSucceeded: disruptive(at(2, 1), out("Drained"), underway(time.Hour, claimed(time.Hour)), overdue, bootID("b")),
		v1alpha1.ReasonNotBack:   disruptive(at(2, 1), out("Drained"), underway(time.Hour, claimed(time.Hour)), overdue, bootID("a"), kubelet("Unknown")),
	} {
		d := decide(s)
		if r := lastRecord(&d.status); r == nil || r.Outcome != outcome || !r.Executed || r.Remedy != "reboot" || d.status.Action != "" {
			t.Errorf("got %+v, want %s", r, outcome)
		}
	}
	d := decide(disruptive(at(3, 1), out("Drained")))
	if r := lastRecord(&d.status); r == nil || r.Outcome != v1alpha1.ReasonSucceeded || !r.Executed || r.Remedy != "maintenance" || !r.StartedAt.Equal(&metav1.Time{Time: now.Add(-time.Hour)}) {
		t.Errorf("got %+v", r)
	}
}
