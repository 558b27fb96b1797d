package remediation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func byAPerson(s *situation) { s.remediation.DeletionTimestamp = ptr.To(ago(0)) }

func TestWhatComesNextForADeletedRemediation(t *testing.T) {
	decideAll(t, []next{
		{"nothing runs: it ends", incident(at(1, 1), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"before anybody has looked at it, too", incident(byAPerson), release, "Deleted", "", 1, 1, 0},
		{"on a clear node, too", incident(at(1, 1), history("Succeeded", time.Minute), condition("False", time.Second, time.Second), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"whatever holds it", incident(at(1, 1), excluded, policyDeleted, withoutBudget, byAPerson), release, "Deleted", "", 1, 1, 0},
		{"even with a status that somebody has made up", incident(at(1, 1), stepOutOfRange, byAPerson), release, "Deleted", "", 99, 1, 0},
		{"an announced action gets its name taken", incident(at(1, 1), underway(0), deleted, progress("Starting"), byAPerson), void, "Starting", "", 1, 1, 0},
		{"one that cannot be, counts as lost", incident(at(1, 1), underway(0), deleted, progress("Starting"), stepOutOfRange, byAPerson), nothing, "Waiting", "", 99, 1, time.Second},
		{"an unclaimed action is cancelled", incident(at(1, 1), underway(time.Second), progress("Acting"), byAPerson), cancel, "Acting", "", 1, 1, 0},
		{"a claimed one is waited for", incident(at(1, 1), underway(time.Second, claimed(time.Second)), progress("Acting"), byAPerson), nothing, "Acting", "StillRunning", 1, 1, 159 * time.Second},
		{"but not for ever", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"one that nobody reports on is waited for", incident(at(1, 1), history("Lost", time.Minute), byAPerson), nothing, "Waiting", "StillRunning", 1, 1, 10 * time.Second},
		{"one whose NodeAction was deleted counts as lost", incident(at(1, 1), underway(time.Second), deleted, progress("Acting"), byAPerson), nothing, "Acting", "", 1, 1, time.Second},
		{"a finished one is remembered", incident(at(1, 1), underway(time.Second, claimed(0), finished("Failed", 0)), progress("Acting"), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"without its node it leaves no tombstone", incident(at(1, 1), nodeGone, byAPerson), release, "NodeGone", "", 1, 1, 0},
		{"a tombstone ends at once", incident(tombstone), release, "Deleted", "", 1, 1, 0},
	})
}

func tombstone(s *situation) {
	s.remediation.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "n1-0123"}
}

func TestTheNameOfATombstone(t *testing.T) {
	r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 253)}}
	if name := tombstoneName(r); len(name) != 253 || !strings.HasSuffix(name, "x-deleted") {
		t.Errorf("got %s", name)
	}
	r.Name = "n1-0123-deleted"
	r.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "n1-0123"}
	if name := tombstoneName(r); name != r.Name {
		t.Errorf("the tombstone of a tombstone is %s", name)
	}
}
