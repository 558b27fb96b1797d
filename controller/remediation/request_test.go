package remediation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// requestedIncident is an incident that NodeHealthCheck workers has asked for an hour ago. Its policy has no
// match, and no condition of the node is looked at.
func requestedIncident(options ...func(*situation)) situation {
	return incident(append([]func(*situation){func(s *situation) {
		s.asked = &v1alpha1.NodemendRemediation{ObjectMeta: metav1.ObjectMeta{
			Namespace: "nhc", Name: "n1", UID: "request-uid", CreationTimestamp: ago(time.Hour),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: "workers"}},
		}}
		spec := &s.remediation.Spec
		spec.Match, s.policy.Spec.Match = nil, nil
		spec.Request = ptr.To(v1alpha1.NewRequest(s.asked))
		s.node.Status.Conditions = nil
	}}, options...)...)
}

func withdrawn(s *situation)    { s.asked = nil }
func beingDeleted(s *situation) { s.asked.DeletionTimestamp = ptr.To(ago(time.Second)) }
func askedAnew(s *situation)    { s.asked.UID = "another-uid" }
func toldToStop(s *situation) {
	s.asked.Annotations = map[string]string{v1alpha1.TimedOutAnnotation: "now"}
}
func bootedFor(d time.Duration) func(*situation) {
	return func(s *situation) { s.remediation.Status.BootedAt = ptr.To(ago(d)) }
}
func asksForAnotherTry(s *situation) {
	s.remediation.Annotations = map[string]string{v1alpha1.RetryAnnotation: "please"}
}

// outOfService has the first step be a reboot, for which the node is out.
func outOfService(s *situation) {
	s.remediation.Spec.Steps[0] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}, Timeout: seconds(600), VerifyTimeout: seconds(60), Attempts: 1}
	s.policy.Spec.Steps = s.remediation.Spec.Steps
	s.remediation.Status.Maintenance = "out"
	s.maintenance = &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "out", Generation: 1}, Spec: s.wanted(&s.remediation.Spec.Steps[0]),
		Status: v1alpha1.NodeMaintenanceStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue, ObservedGeneration: 1},
			{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue, ObservedGeneration: 1},
		}},
	}
	s.node.Spec.Unschedulable = true
}

func drained(is bool) func(*situation) {
	return func(s *situation) {
		if !is {
			s.maintenance.Spec.Drain = &v1alpha1.Drain{}
			s.maintenance.Status.Conditions = nil
		}
	}
}

func TestWhatComesNextForARequest(t *testing.T) {
	decideAll(t, []next{
		{"as long as it stands, the node is sick", requestedIncident(), start, "Starting", "", 1, 1, time.Minute},
		{"gates hold", requestedIncident(excluded), release, "Waiting", "Excluded", 1, 1, time.Minute},
		{"a dry run holds", requestedIncident(func(s *situation) { s.policy.Spec.Mode = v1alpha1.ModeDryRun }), release, "Waiting", "DryRun", 1, 1, time.Minute},
		{"its driver has a minute to see that a node is Ready", requestedIncident(readyFor(20 * time.Second)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"its runner's clock may be behind", requestedIncident(readyFor(64 * time.Second)), release, "Waiting", "NoEvidence", 1, 1, time.Second},
		{"and no more", requestedIncident(readyFor(65 * time.Second)), start, "Starting", "", 1, 1, time.Minute},
		{"or that it has booted", requestedIncident(at(1, 1), bootedFor(30*time.Second)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"after an action it has the step's time", requestedIncident(at(1, 1), history("Succeeded", 10*time.Second)), nothing, "Verifying", "", 1, 1, 50 * time.Second},
		{"and then comes the next attempt", requestedIncident(at(1, 1), history("Succeeded", 65*time.Second)), start, "Starting", "", 1, 2, time.Minute},
		{"after the last one it is exhausted", requestedIncident(at(2, 1), history("Succeeded", 65*time.Second)), release, "Exhausted", "", 2, 1, time.Minute},
		{"and stays so: its driver has gone on", requestedIncident(at(2, 1), history("Succeeded", 65*time.Second), progress("Exhausted"), asksForAnotherTry), release, "Exhausted", "", 2, 1, time.Minute},
		{"even if the node answers again", requestedIncident(at(2, 1), history("NotBack", time.Hour), progress("Exhausted"), readyFor(time.Hour)), release, "Exhausted", "", 2, 1, time.Minute},

		{"one that is withdrawn before anything was done ends it", requestedIncident(withdrawn), release, "Released", "", 1, 1, 0},
		{"so does one that is being deleted", requestedIncident(beingDeleted), release, "Released", "", 1, 1, 0},
		{"so does another one of its name", requestedIncident(askedAnew), release, "Released", "", 1, 1, 0},
		{"a Ready node has recovered by itself then", requestedIncident(withdrawn, readyFor(time.Second)), release, "RecoveredByItself", "", 1, 1, 0},
		{"and recovered after an action, without healthyFor", requestedIncident(withdrawn, readyFor(time.Second), at(1, 1), history("Succeeded", time.Second)), release, "Recovered", "", 1, 1, 0},
		{"an action that nobody has claimed is cancelled first", requestedIncident(withdrawn, at(1, 1), underway(time.Second)), cancel, "", "", 1, 1, time.Minute},
		{"one that runs is waited for", requestedIncident(withdrawn, at(1, 1), underway(time.Second, claimed(0))), nothing, "Waiting", "StillRunning", 1, 1, time.Minute},
		{"one that was announced gets no later than expired", requestedIncident(withdrawn, at(1, 1), underway(0), deleted, progress("Starting")), void, "Starting", "", 1, 1, time.Minute},
		{"gates hold back no end", requestedIncident(withdrawn, excluded, policyDeleted, withoutBudget), release, "Released", "", 1, 1, 0},
		{"a node that was taken out is given back", requestedIncident(at(1, 1), outOfService, withdrawn), release, "Released", "", 1, 1, 0},
		{"by a person if the policy says so", requestedIncident(at(1, 1), outOfService, manual, withdrawn), release, "Healing", "ReleaseRequired", 1, 1, time.Minute},

		{"its driver tells to stop", requestedIncident(toldToStop), release, "Stopped", "", 1, 1, time.Minute},
		{"an action that nobody has claimed is cancelled then", requestedIncident(toldToStop, at(1, 1), underway(time.Second)), cancel, "", "", 1, 1, time.Minute},
		{"one that runs runs out", requestedIncident(toldToStop, at(1, 1), underway(time.Second, claimed(0))), nothing, "Waiting", "StillRunning", 1, 1, time.Minute},
		{"no step follows it", requestedIncident(toldToStop, at(1, 1), history("Failed", time.Hour)), release, "Stopped", "", 1, 1, time.Minute},
		{"not even when a person asks", requestedIncident(toldToStop, at(1, 1), history("Interrupted", time.Hour), asksForAnotherTry), release, "Stopped", "", 1, 1, time.Minute},
		{"the node stays out of service", requestedIncident(toldToStop, at(1, 1), outOfService), release, "Stopped", "", 1, 1, parkedRecheck},
		{"nothing more is evicted from it", requestedIncident(toldToStop, at(1, 1), outOfService, drained(false)), calm, "Stopped", "", 1, 1, parkedRecheck},
		{"then it ends as before", requestedIncident(toldToStop, beingDeleted, progress("Stopped")), release, "Released", "", 1, 1, 0},
		{"what is exhausted stays so", requestedIncident(toldToStop, at(2, 1), history("Succeeded", 65*time.Second), progress("Exhausted")), release, "Exhausted", "", 2, 1, time.Minute},

		{"a deleted node ends it", requestedIncident(nodeGone), release, "NodeGone", "", 1, 1, 0},
	})
}
