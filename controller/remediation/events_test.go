package remediation

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// told lists the events of one remediation that goes through these situations, each
// decided on from the status that the one before left.
func told(situations ...func(*situation)) []string {
	var all []string
	s := incident()
	for _, change := range situations {
		next := incident()
		next.remediation.Status = *s.remediation.Status.DeepCopy()
		change(&next)
		before := next.remediation.DeepCopy()
		next.remediation.Status = decide(next).status
		for _, n := range notes(before, next.remediation) {
			all = append(all, n.reason+" "+n.about)
		}
		s = next
	}
	return all
}

// ends makes the action that is under way end so.
func ends(reason string) func(*situation) {
	return func(s *situation) {
		action := &v1alpha1.NodeAction{
			ObjectMeta: metav1.ObjectMeta{Name: s.remediation.Status.Action},
			Spec: v1alpha1.NodeActionSpec{
				Remediation: s.remediation.Name, RemediationUID: s.remediation.UID, ExpiresAt: ago(0),
				Step: s.remediation.Status.Step, Attempt: s.remediation.Status.Attempt,
			},
		}
		finished(reason, 0)(action)
		s.attempt = actionTells(action)
	}
}

// later lets an hour pass on a node whose fault is reported again.
func later(s *situation) {
	s.now = now.Add(time.Hour)
	s.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(s.now)
}

func nothingNew(*situation) {}

func TestEachChangeIsToldOnce(t *testing.T) {
	healthy := condition("False", time.Second, time.Hour)
	for _, tt := range []struct {
		name       string
		situations []func(*situation)
		want       []string
	}{
		{"a story that ends well", []func(*situation){nothingNew, ends("Succeeded"), nothingNew, func(s *situation) {
			later(s)
			healthy(s)
			s.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(s.now)
		}},
			[]string{"RemediationStarted Start", "ActionStarted Act", "ActionFinished Succeeded", "RemediationRecovered Recovered"}},
		{"blocked, once per reason", []func(*situation){excluded, excluded, withoutBudget, withoutBudget, excluded},
			[]string{"RemediationStarted Start", "RemediationBlocked Excluded", "RemediationBlocked NoBudget", "RemediationBlocked Excluded"}},
		{"an attempt that is not executed again and again", []func(*situation){nothingNew, ends("Expired"), later, ends("Expired"), later, ends("Expired")},
			[]string{"RemediationStarted Start", "ActionStarted Act", "ActionFinished Expired", "RemediationBlocked RunnerAway"}},
		{"until it ends in another way", []func(*situation){nothingNew, ends("Expired"), later, ends("Expired"), later, ends("UnitMasked")},
			[]string{"RemediationStarted Start", "ActionStarted Act", "ActionFinished Expired", "RemediationBlocked RunnerAway", "ActionFinished UnitMasked", "RemediationBlocked UnitMasked"}},
		{"and whatever else holds it is told", []func(*situation){nothingNew, ends("Expired"), later, ends("Expired"), excluded},
			[]string{"RemediationStarted Start", "ActionStarted Act", "ActionFinished Expired", "RemediationBlocked RunnerAway", "RemediationBlocked Excluded"}},
		{"exhausted, then started over", []func(*situation){at(2, 1), ends("Failed"), later, later, func(s *situation) { later(s); retry("1")(s) }},
			[]string{"ActionStarted Act", "ActionFinished Failed", "RemediationExhausted Exhausted", "RemediationRetried Retry", "ActionStarted Act"}},
		{"deleted", []func(*situation){excluded, byAPerson}, []string{"RemediationStarted Start", "RemediationBlocked Excluded", "RemediationEnded Deleted"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(tt.situations...); !slices.Equal(got, tt.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
		})
	}
}

// recorder keeps what is told, by the kind of what it is about.
type recorder struct{ told map[string][]string }

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	about := regarding.(*corev1.ObjectReference)
	key := about.Kind + " " + string(about.UID)
	r.told[key] = append(r.told[key], reason)
}

func TestWhereAnEventIsTold(t *testing.T) {
	s := incident()
	before := s.remediation.DeepCopy()
	s.remediation.Status = decide(s).status
	r := &recorder{told: map[string][]string{}}
	for _, n := range notes(before, s.remediation) {
		n.send(r, s.remediation)
	}
	if got := r.told["Remediation remediation-uid"]; !slices.Equal(got, []string{"RemediationStarted", "ActionStarted"}) {
		t.Errorf("on the remediation: %v", got)
	}
	if got := r.told["Node n1"]; !slices.Equal(got, []string{"RemediationStarted"}) {
		t.Errorf("on the node, which is named by its name: %v", got)
	}
}
