package main

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// played is what stands on a terminal of 80 columns in the end.
func played(t *testing.T, text string) string {
	t.Helper()
	var rows []string
	up := regexp.MustCompile(`^\x1b\[(\d+)A\r\x1b\[J`)
	for text != "" {
		if at := up.FindStringSubmatch(text); at != nil {
			n, _ := strconv.Atoi(at[1])
			rows, text = rows[:len(rows)-n], text[len(at[0]):]
			continue
		}
		line, rest, _ := strings.Cut(text, "\n")
		for len(line) > 80 { // a terminal goes on in the next row
			rows, line = append(rows, line[:80]), line[80:]
		}
		rows, text = append(rows, line), rest
	}
	return strings.Join(rows, "\n")
}

func TestBarsLeaveNoDebrisOnATerminal(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, terminal: true, width: 80, height: 5}
	long := strings.Repeat("x", 200)
	s.show([]string{"a 0% " + long, ""})
	s.show([]string{"a 10% " + long, "b 0%", "c", "d"})
	s.note("the time of b is over")
	s.show([]string{"a 10%", "b 100%", "c", "d"})
	s.show([]string{"a 100%", "b 100%", "c", "d"})
	if got, want := played(t, out.String()), "the time of b is over\na 100%\nb 100%\nc"; got != want {
		t.Errorf("on the terminal stands\n%s\nwant\n%s", got, want)
	}
}

func TestElsewhereOnlyWhatChangesIsPrinted(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	s.show([]string{"a 0%", ""})
	s.show([]string{"a 0%", "b 0%"})
	s.note("note")
	s.show([]string{"a 0%", "b 100%"})
	if got, want := out.String(), "a 0%\nb 0%\nnote\nb 100%\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSeveralDrainsAreFollowedToTheirEnds(t *testing.T) {
	out := func(name, reason string, done metav1.ConditionStatus, message string, left int32) *v1alpha1.NodeMaintenance {
		m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "worker-" + name, Drain: &v1alpha1.Drain{}}}
		m.Status.Drain = &v1alpha1.DrainStatus{StartedAt: before(time.Hour), Left: left, Total: 2, Percent: 100 - 50*left}
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: done, Reason: reason, Message: message}}
		return m
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		out("1", v1alpha1.ReasonDrained, metav1.ConditionTrue, "", 0),
		out("2", v1alpha1.ReasonDrainTimedOut, metav1.ConditionTrue, "it took longer than 1h, and is taken as drained", 1),
		out("3", v1alpha1.ReasonDrainAborted, metav1.ConditionFalse, "1 pod is left", 1),
	).Build()
	var text bytes.Buffer
	tool := atNoon()
	tool.streams = genericiooptions.IOStreams{Out: &text}
	err = tool.progress(t.Context(), c, []string{"1", "2", "3", "4"})
	const wrong = "the drain of node worker-3 was given up: 1 pod is left\nmaintenance 4 was ended before the node was drained"
	if err == nil || err.Error() != wrong {
		t.Errorf("got %v, want %s", err, wrong)
	}
	golden(t, "maintenance-progress", text.String())
}

func TestADrainIsFollowedAlthoughTheAPIServerIsAwayForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "worker-1", Drain: &v1alpha1.Drain{}}}
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained}}
		asked := 0
		r := requests{fails: func(string) error {
			asked++
			if asked <= 3 {
				return errors.New("connection refused")
			}
			return nil
		}}
		var text bytes.Buffer
		tool := atNoon()
		tool.streams = genericiooptions.IOStreams{Out: &text}
		err := tool.progress(t.Context(), r.cluster(t, m), []string{"m"})
		if err != nil || strings.Count(text.String(), "connection refused") != 1 || !strings.Contains(text.String(), "worker-1") {
			t.Errorf("got %v and\n%s", err, text.String())
		}
		forbidden := requests{fails: func(string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodemaintenances"}, "m", errors.New("no right"))
		}}
		if err := tool.progress(t.Context(), forbidden.cluster(t, m), []string{"m"}); !apierrors.IsForbidden(err) {
			t.Errorf("without the right to look: %v", err)
		}
	})
}
