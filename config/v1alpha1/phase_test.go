package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThePhaseFollowsFromTheNamesAndTheState(t *testing.T) {
	const action, maintenance = "worker-1-a-1", "worker-1-m"
	for name, c := range map[string]struct {
		action, maintenance, state string
		ended                      bool
		want                       Phase
	}{
		"not looked at yet":                     {want: PhaseNext},
		"an attempt is next":                    {state: ReasonWaiting, want: PhaseNext},
		"an attempt has ended":                  {state: ReasonVerifying, want: PhaseNext},
		"clear":                                 {state: ReasonHealing, want: PhaseNext},
		"a maintenance is announced":            {maintenance: maintenance, state: ReasonStarting, want: PhaseMaintenanceAnnounced},
		"a drain":                               {maintenance: maintenance, state: ReasonTakingOut, want: PhaseTakingOut},
		"out":                                   {maintenance: maintenance, state: ReasonInMaintenance, want: PhaseOut},
		"out, and the next attempt is held":     {maintenance: maintenance, state: ReasonWaiting, want: PhaseOut},
		"out, and an action is announced":       {action: action, maintenance: maintenance, state: ReasonStarting, want: PhaseActionAnnounced},
		"out, and an action is executed":        {action: action, maintenance: maintenance, state: ReasonActing, want: PhaseActing},
		"an action is announced":                {action: action, state: ReasonStarting, want: PhaseActionAnnounced},
		"an action waits for its runner":        {action: action, state: ReasonActing, want: PhaseActing},
		"every step in vain":                    {state: ReasonExhausted, want: PhaseExhausted},
		"every step in vain, and out":           {maintenance: maintenance, state: ReasonExhausted, want: PhaseExhausted},
		"over":                                  {state: ReasonRecovered, ended: true, want: PhaseEnded},
		"over, and a maintenance is left there": {maintenance: maintenance, state: ReasonDeleted, ended: true, want: PhaseEnded},
	} {
		status := RemediationStatus{Action: c.action, Maintenance: c.maintenance}
		if c.state != "" {
			status.Conditions = []metav1.Condition{{Type: RemediationProgressing, Reason: c.state}}
		}
		if c.ended {
			status.EndTime = &metav1.Time{}
		}
		if got := status.Phase(); got != c.want {
			t.Errorf("%s: phase %s, want %s", name, got, c.want)
		}
	}
}
