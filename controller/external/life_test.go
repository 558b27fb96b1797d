package external

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// life is how an action goes.
type life struct {
	remediator remediator
	// at is what others do, by the seconds since the beginning.
	at map[int]func(*scene)
	// ends is the reason, says a part of the message; "" if it never ends.
	ends, says string
	// within is after how many seconds it has ended at the latest.
	within int
	// told: the remediator is told that its time is over.
	told bool
}

func lives() map[string]life {
	del := func(s *scene) {
		if object := s.object(); object != nil {
			if err := s.c.Delete(s.t.Context(), object); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return map[string]life{
		"it succeeds, and the node is clear": {
			remediator: remediator{does: func(s *scene) { s.says(processing, "False", succeeded, "True") }},
			at:         map[int]func(*scene){120: func(s *scene) { s.recall(true) }}, ends: v1alpha1.ReasonSucceeded, says: "told to stop", within: 240,
		},
		"the node is clear before it has said anything": {
			remediator: remediator{deaf: true}, at: map[int]func(*scene){60: func(s *scene) { s.recall(true) }},
			ends: v1alpha1.ReasonSucceeded, within: 240,
		},
		"it lies": {
			remediator: remediator{does: func(s *scene) { s.says(processing, "False", succeeded, "True") }},
			ends:       v1alpha1.ReasonSucceeded, says: "the node was not clear within 10m0s", within: 1200, told: true,
		},
		"it fails": {
			remediator: remediator{does: func(s *scene) { s.says(processing, "False", succeeded, "False") }},
			ends:       v1alpha1.ReasonFailed, says: "has failed: Processing=False (Played), Succeeded=False (Played)", within: 240, told: true,
		},
		"it takes too long": {ends: v1alpha1.ReasonTimedOut, says: "within 10m0s", within: 1200, told: true},
		"it dies before it begins": {
			remediator: remediator{deaf: true}, ends: v1alpha1.ReasonTimedOut, says: "it has told nothing yet", within: 1200, told: true,
		},
		"the remediation is deleted": {
			at: map[int]func(*scene){60: func(s *scene) { s.recall(false) }}, ends: v1alpha1.ReasonFailed, within: 240, told: true,
		},
		"a person deletes its object": {
			at: map[int]func(*scene){60: del}, ends: v1alpha1.ReasonFailed, says: "somebody has deleted SelfNodeRemediation medik8s/w1", within: 240,
		},
		"a person deletes its object and makes another one": {
			remediator: remediator{deaf: true},
			at: map[int]func(*scene){60: func(s *scene) {
				object := s.object()
				if object == nil {
					return
				}
				del(s)
				object.SetUID("another-uid")
				object.SetResourceVersion("")
				if err := s.c.Create(s.t.Context(), object); err != nil {
					s.t.Fatal(err)
				}
			}}, ends: v1alpha1.ReasonFailed, says: "somebody has deleted", within: 240,
		},
		"its finalizer stays for ever": {
			at: map[int]func(*scene){60: func(s *scene) {
				s.change(func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/for-ever"}) })
				s.recall(true)
			}}, within: 3600,
		},
		"a person removes the finalizer of one that has died": {
			at: map[int]func(*scene){
				60: func(s *scene) {
					s.change(func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/for-ever"}) })
				},
				1800: func(s *scene) { s.change(func(o *unstructured.Unstructured) { o.SetFinalizers(nil) }) },
			}, ends: v1alpha1.ReasonTimedOut, within: 2100, told: true,
		},
	}
}

// play plays a life until the action has ended or it has had its time, and returns its end.
func (s *scene) play(l *life) *v1alpha1.NodeAction {
	s.t.Helper()
	told := false
	step := 0
	for second := 0; second <= l.within; second += step {
		if step = 10; second >= 300 {
			step = 60
		}
		if do := l.at[second]; do != nil && s.action().Finished() == nil && s.action().Status.External != nil {
			do(s)
		}
		s.look()
		l.remediator.look(s)
		if object := s.object(); object != nil {
			_, expired := object.GetAnnotations()[timedOutAnnotation]
			told = told || expired
		}
		if s.action().Finished() != nil {
			break
		}
		s.clock.SetTime(s.clock.Now().Add(time.Duration(step) * time.Second))
	}
	if l.told != told && s.at == 0 {
		s.t.Errorf("that the remediator was told that its time is over: %t", told)
	}
	return s.action()
}

func TestAnActionLastsUntilItsObjectIsGone(t *testing.T) {
	for name, l := range lives() {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			checkEnd(t, s.play(&l), l.ends, l.says)
			if s.created != 1 {
				t.Errorf("%d objects were created", s.created)
			}
		})
	}
}

func checkEnd(t *testing.T, a *v1alpha1.NodeAction, reason, says string) {
	t.Helper()
	switch f := a.Finished(); {
	case reason == "" && f != nil:
		t.Errorf("it has ended: %s: %s", f.Reason, f.Message)
	case reason != "" && f == nil:
		t.Errorf("it has not ended: %+v", a.Status)
	case reason != "" && (f.Reason != reason || !strings.Contains(f.Message, says)):
		t.Errorf("it has ended as %s: %s", f.Reason, f.Message)
	}
}

// Whichever write the controller stops at, before or after the API server has executed it, the next
// one goes on: the object is created at most once, and the action lasts until it is gone.
func TestAControllerMayStopAtAnyWrite(t *testing.T) {
	all := lives()
	for _, name := range []string{"it succeeds, and the node is clear", "it fails", "it takes too long", "a person deletes its object"} {
		l := all[name]
		for _, before := range []bool{true, false} {
			for at := 1; ; at++ {
				s := newScene(t)
				s.at, s.before = at, before
				a := s.play(&l)
				if s.writes < at {
					break
				}
				t.Run(fmt.Sprintf("%s: write %d, before it is executed: %t", name, at, before), func(t *testing.T) {
					if before && at == 2 || !before && at == 1 { // claimed, and nobody knows whether anything was created
						if s.created != 0 {
							t.Errorf("%d objects were created", s.created)
						}
						checkEnd(t, a, v1alpha1.ReasonInterrupted, "there is none")
						return
					}
					checkEnd(t, a, l.ends, "")
				})
			}
		}
	}
}

func TestAnObjectOfSomebodyElseIsNotTouched(t *testing.T) {
	foreign := empty(&v1alpha1.ExternalObject{APIVersion: "self-node-remediation.medik8s.io/v1alpha1", Kind: "SelfNodeRemediation", Namespace: "medik8s", Name: "w1"})
	foreign.SetUID("foreign-uid")
	for name, late := range map[string]bool{"it was there before": false, "it comes right before the create": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			put := func() {
				if err := s.c.Create(t.Context(), foreign.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			if late {
				s.refuse = func(verb string, object client.Object) error {
					if _, is := object.(*unstructured.Unstructured); is && verb == "create" {
						put()
					}
					return nil
				}
			} else {
				put()
			}
			s.look()
			s.look()
			checkEnd(t, s.action(), v1alpha1.ReasonRefused, "already, which is not of this action and is not touched")
			if object := s.object(); object == nil || object.GetUID() != "foreign-uid" || len(object.GetAnnotations()) > 0 {
				t.Errorf("it was touched: %v", object)
			}
		})
	}
}

// A create that arrives when nobody waits for it any more leaves nothing behind, and one of a
// controller that has slept is found by the next one that starts.
func TestAnObjectThatComesLateIsDeleted(t *testing.T) {
	for name, later := range map[string]time.Duration{"soon": 0, "on the next day": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) { comesLate(t, later) })
	}
}

func comesLate(t *testing.T, later time.Duration) {
	t.Helper()
	s := newScene(t)
	s.at, s.before = 2, true
	l := life{within: 200}
	checkEnd(t, s.play(&l), v1alpha1.ReasonInterrupted, "there is none")
	s.clock.SetTime(s.clock.Now().Add(later))
	late, err := fromTemplate(template(nil), s.action(), node(), nil)
	if err != nil {
		t.Fatal(err)
	}
	late.SetUID("late-uid")
	if err := s.c.Create(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	s.look()
	if s.object() != nil {
		t.Error("it is still there")
	}
}
