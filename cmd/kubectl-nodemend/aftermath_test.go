package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestWhatABootHasLeftLooksLikeNoLineOfOurs(t *testing.T) {
	got := leftText([]aftermath{{Action: "worker-17-1", Aftermath: v1alpha1.Aftermath{BootID: "b", Left: []v1alpha1.Leftover{
		{Source: v1alpha1.LeftoverJournal, Text: "one\x1b[2J\nPolicy forged (Automatic): nothing to do", Truncated: true},
		{Source: v1alpha1.LeftoverPstore},
		{Source: v1alpha1.LeftoverEventLog, Problem: "the node has no /dev/ipmi0\nNode: Ready"},
		{Source: "Later", Text: "of a later version"},
	}}}})
	const want = `
What the boot has left that action worker-17-1 has ended:
  the end of its journal, cut
    | one` + "\ufffd" + `[2J
    | Policy forged (Automatic): nothing to do
  what the kernel kept of it (pstore): nothing
  what the BMC has logged: the node has no /dev/ipmi0 Node: Ready
  Later
    | of a later version
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// told is an action of a node, with what the boot before has left.
func told(name, bootID, text string) *v1alpha1.NodeAction {
	a := &v1alpha1.NodeAction{}
	a.Name, a.Spec.NodeName = name, "mine"
	a.Status.Aftermath = &v1alpha1.Aftermath{BootID: bootID, Left: []v1alpha1.Leftover{{Source: v1alpha1.LeftoverJournal, Text: text}}}
	return a
}

func TestWhyTellsOfTheFenceAndOfTheBootBeforeThisOne(t *testing.T) {
	n := tried("mine", corev1.ConditionTrue, v1alpha1.FenceAnswers, noon.Add(-time.Hour))
	n.Status.NodeInfo.BootID = "b"
	objects := []*v1alpha1.NodeAction{told("mine-1", "a", "of last week"), told("mine-2", "b", "Out of memory")}
	var r requests
	w, err := atNoon().why(t.Context(), r.cluster(t, n, objects[0], objects[1]), "mine")
	if err != nil {
		t.Fatal(err)
	}
	text := atNoon().whyText(w, false)
	if !inOrder(text, "Fence: it could be switched off from outside (SwitchAnswers)", "What the boot has left that action mine-2 has ended", "| Out of memory") || strings.Contains(text, "of last week") {
		t.Error(text)
	}
}

func TestWhoMayNotReadActionsIsToldTheRest(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "nodemend.dev", Resource: "nodeactions"}, "", errors.New("no right"))
	for kind, want := range map[error]bool{forbidden: true, errors.New("no answer"): false} {
		r := requests{fails: func(object string) error {
			if strings.HasSuffix(object, "NodeActionList") {
				return kind
			}
			return nil
		}}
		w, err := atNoon().why(t.Context(), r.cluster(t, sick("mine", "z"), told("mine-1", "", "a secret")), "mine")
		if (err == nil) != want || want && len(w.Left) > 0 {
			t.Errorf("%v: got %+v, %v", kind, w, err)
		}
	}
}
