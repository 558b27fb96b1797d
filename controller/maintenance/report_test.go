package maintenance

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/client-go/tools/events"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The API server takes 1,024 bytes, and drops an event that has more.
func TestALongMessageIsCutInWholeCharacters(t *testing.T) {
	told := events.NewFakeRecorder(4)
	r := &Reconciler{Events: told}
	for _, message := range []string{strings.Repeat("ü", 600), strings.Repeat("x", 1024)} {
		r.tell(toDrain(v1alpha1.OnTimeoutWait), "Normal", "Reason", message)
		if len(told.Events) != 2 {
			t.Fatalf("%d events, want one on the maintenance and one on the node", len(told.Events))
		}
		for range 2 {
			e := strings.TrimPrefix(<-told.Events, "Normal Reason ")
			if len(e) < 1020 || len(e) > 1024 || !utf8.ValidString(e) {
				t.Errorf("%d bytes: %s", len(e), e)
			}
		}
	}
}

func TestPeopleAreToldOnceOfEachChange(t *testing.T) {
	told := events.NewFakeRecorder(10)
	r := &Reconciler{Events: told}
	m := toDrain(v1alpha1.OnTimeoutAbort)
	for _, step := range []struct {
		left int32
		want string
	}{{4, "Normal DrainStarted"}, {3, ""}, {2, ""}, {0, "Normal NodeDrained"}, {0, ""}} {
		before := m.DeepCopy()
		pass := left(step.left)
		pass.Done = step.left == 0
		look(m, "u", 0, pass)
		r.report(before, m)
		var got []string
		for len(told.Events) > 0 {
			got = append(got, <-told.Events)
		}
		if (step.want == "") != (len(got) == 0) || step.want != "" && (len(got) != 2 || !strings.HasPrefix(got[0], step.want)) {
			t.Errorf("%d left: told %q, want %q on the maintenance and on the node", step.left, got, step.want)
		}
	}
	before := m.DeepCopy()
	m.Generation++
	look(m, "u", 0, left(2))
	look(m, "u", 3600e9, left(2))
	r.report(before, m)
	if len(told.Events) != 2 || !strings.HasPrefix(<-told.Events, "Warning DrainAborted") {
		t.Error("an abort is no warning")
	}
}
