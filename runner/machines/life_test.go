package machines

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// life is how a replacement goes.
type life struct {
	// check is the MachineHealthCheck, nil: there is none.
	check *unstructured.Unstructured
	// set prepares the scene.
	set func(*scene)
	// at is what others do, by when.
	at map[time.Duration]func(*scene)
	// ends is the reason, says a part of the message; "" if it does not end within long.
	ends, says string
	long       time.Duration
	// sent: the machine was deleted or marked.
	sent bool
}

func lives() map[string]life {
	remediates := healthCheck(nil)
	external := healthCheck(map[string]any{"templateRef": map[string]any{"apiVersion": "nodemend.dev/v1alpha1", "kind": "NodemendRemediationTemplate", "name": "driven"}})
	others := healthCheck(nil)
	others.Object["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"pool": "others"}}
	nothing := healthCheck(nil)
	nothing.Object["spec"].(map[string]any)["selector"] = map[string]any{}
	waits := func(s *scene) { s.lazy = true }
	return map[string]life{
		"the machine is deleted": {ends: v1alpha1.ReasonReplaced, says: "Machine fleet/m-w1 and its Node are gone, and MachineSet fleet/workers has 3 Ready nodes", sent: true},
		"by its owner's own remediation": {
			check: remediates, ends: v1alpha1.ReasonReplaced, says: "has 3 Ready nodes", sent: true,
		},
		"a MachineHealthCheck that would ask another program": {check: external, ends: v1alpha1.ReasonReplaced, sent: true},
		"a MachineHealthCheck of other machines":              {check: others, ends: v1alpha1.ReasonReplaced, sent: true},
		"a MachineHealthCheck that selects nothing":           {check: nothing, ends: v1alpha1.ReasonReplaced, sent: true},
		"its finalizer stays":                                 {set: func(s *scene) { s.stuck = true }, long: 3 * time.Hour, sent: true},
		"its finalizer stays for long": {
			set: func(s *scene) { s.stuck = true }, at: map[time.Duration]func(*scene){time.Hour: func(s *scene) { s.stuck = false }},
			ends: v1alpha1.ReasonReplaced, long: 2 * time.Hour, sent: true,
		},
		"no new one is made": {
			set:  func(s *scene) { s.barren = true },
			ends: v1alpha1.ReasonNotReplaced, says: "30m0s after the claim MachineSet fleet/workers has 2 Ready nodes, not 3", sent: true,
		},
		"the new one takes too long": {set: func(s *scene) { s.boots = time.Hour }, ends: v1alpha1.ReasonNotReplaced, says: "not 3", sent: true},
		"the owner wants fewer by then": {
			set: func(s *scene) { s.barren = true },
			at: map[time.Duration]func(*scene){5 * time.Minute: func(s *scene) {
				s.change(machineSet(), func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"replicas": int64(2)} })
			}},
			ends: v1alpha1.ReasonReplaced, says: "has 2 Ready nodes", sent: true,
		},
		"the owner is deleted meanwhile": {
			set: func(s *scene) { s.barren = true },
			at: map[time.Duration]func(*scene){5 * time.Minute: func(s *scene) {
				s.must(s.there.Delete(s.Context(), machineSet()))
			}},
			ends: v1alpha1.ReasonNotReplaced, says: "nobody makes a new one: MachineSet fleet/workers: it is gone", sent: true,
		},
		"the Node stays": {
			at: map[time.Duration]func(*scene){0: func(s *scene) {
				s.node(func(n *corev1.Node) { n.Finalizers = []string{"example.com/stays"} })
			}},
			ends: v1alpha1.ReasonTimedOut, says: "Node w1 is still there", sent: true,
		},
		"a Node of that name comes back": {
			at: map[time.Duration]func(*scene){4 * time.Minute: func(s *scene) {
				again := nodeOf("w1")
				again.UID = "w1-again"
				s.must(s.here.Create(s.Context(), again))
			}},
			ends: v1alpha1.ReasonReplaced, sent: true,
		},
		"the policy is paused later": {
			at: map[time.Duration]func(*scene){30 * time.Second: func(s *scene) {
				s.policy(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true })
			}},
			ends: v1alpha1.ReasonReplaced, sent: true,
		},
		"the owner does not heed the mark": {
			check: remediates, set: waits,
			ends: v1alpha1.ReasonTimedOut, says: "has not begun with it within 30m0s: the mark is taken back", sent: true,
		},
		"the owner says that it can't": {
			check: remediates, set: waits,
			at: map[time.Duration]func(*scene){time.Minute: func(s *scene) {
				s.change(machineOf("w1"), func(o *unstructured.Unstructured) {
					setConditions(o, map[string]any{"type": ownerRemediated, "status": "False", "reason": "RemediationDeferred", "message": "no etcd"})
				})
			}},
			ends: v1alpha1.ReasonTimedOut, says: "OwnerRemediated: False, RemediationDeferred, no etcd", sent: true,
		},
		"the node is well before the owner heeds the mark": {
			check: remediates, set: waits,
			at: map[time.Duration]func(*scene){5 * time.Minute: func(s *scene) {
				s.node(func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionFalse })
			}},
			ends: v1alpha1.ReasonNotNeeded, says: "Broken is False", sent: true,
		},
		"somebody takes the mark away": {
			check: remediates, set: waits,
			at: map[time.Duration]func(*scene){5 * time.Minute: func(s *scene) {
				s.change(machineOf("w1"), func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
			}},
			ends: v1alpha1.ReasonFailed, says: "somebody has taken the mark of Machine fleet/m-w1 back", sent: true,
		},
		"the management cluster is away for a while": {
			at: map[time.Duration]func(*scene){
				30 * time.Second: func(s *scene) { s.unreachable = true }, 10 * time.Minute: func(s *scene) { s.unreachable = false },
			},
			ends: v1alpha1.ReasonReplaced, sent: true,
		},
	}
}

func newLife(t *testing.T, l *life) *scene {
	t.Helper()
	there := []client.Object{capi("Cluster", "prod", nil), machineSet(), machineOf("w1"), machineOf("w2"), machineOf("w3")}
	if l.check != nil {
		there = append(there, l.check.DeepCopy())
	}
	s := newScene(t, there...)
	if l.set != nil {
		l.set(s)
	}
	return s
}

func (s *scene) live(l *life) *v1alpha1.NodeAction {
	s.Helper()
	at := map[time.Duration]func(){}
	for when, do := range l.at {
		at[when] = func() { do(s) }
	}
	long := l.long
	if long == 0 {
		long = time.Hour
	}
	return s.play(long, at)
}

func TestAReplacementLastsUntilANewNodeIsReady(t *testing.T) {
	for name, l := range lives() {
		t.Run(name, func(t *testing.T) {
			s := newLife(t, &l)
			a := s.live(&l)
			s.ended(a, l.ends, l.says)
			if l.sent != (len(s.sent) == 1) {
				t.Errorf("sent: %v", s.sent)
			}
			if a.Status.Replace == nil || a.Status.Replace.Wanted != 3 || a.Status.Claim.Remedy != v1alpha1.RemedyReplace {
				t.Errorf("kept is %+v", a.Status)
			}
			if method := a.Status.Replace.Method; (method == v1alpha1.ReplaceRemediate) != (l.check != nil && l.check.GetName() == "workers" && selects(l.check, machineOf("w1")) && l.check.Object["spec"].(map[string]any)["remediation"] == nil) {
				t.Errorf("by %s", method)
			}
			if f := a.Finished(); f != nil && v1alpha1.Executed(f.Reason) != (a.Status.Result != nil) {
				t.Errorf("ended as %s, with the result %+v", f.Reason, a.Status.Result)
			}
		})
	}
}

// Whichever call is the last one of a remote runner, before its effect or after it, the next one goes on.
func TestARemoteRunnerMayDieAtAnyCall(t *testing.T) {
	for _, name := range []string{"the machine is deleted", "by its owner's own remediation", "the node is well before the owner heeds the mark"} {
		l := lives()[name]
		whole := newLife(t, &l)
		whole.live(&l)
		calls := min(whole.calls, 50) // what follows is the same again and again
		for call := 1; call <= calls; call++ {
			for _, before := range []bool{true, false} {
				s := newLife(t, &l)
				s.at, s.before = call, before
				a := s.live(&l)
				if len(s.sent) > 2 || a == nil {
					t.Errorf("%s: call %d, before its effect %t: sent %v", name, call, before, s.sent)
				}
				if f := a.Finished(); f != nil && f.Reason != l.ends || f == nil && l.ends != "" {
					t.Errorf("%s: call %d, before its effect %t: ended as %+v, want %s; %+v", name, call, before, f, l.ends, a.Status.Replace)
				}
			}
		}
	}
}

// Whatever people say until the machine is deleted, and whenever, holds it.
func TestWhatIsSaidBeforeHoldsTheDeletion(t *testing.T) {
	for name, say := range map[string]func(*scene){
		"the policy is paused": func(s *scene) { s.policy(func(p *v1alpha1.RemedyPolicy) { p.Spec.Paused = true }) },
		"the policy is deleted": func(s *scene) {
			s.must(s.here.Delete(s.Context(), &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))
		},
		"the node is excluded": func(s *scene) {
			s.node(func(n *corev1.Node) { n.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"} })
		},
		"the node is well":    func(s *scene) { s.node(func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionFalse }) },
		"the node has booted": func(s *scene) { s.node(func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" }) },
		"a budget is paused": func(s *scene) {
			s.must(s.here.Create(s.Context(), &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.RemediationBudgetSpec{Paused: true}}))
		},
		"a maintenance begins": func(s *scene) {
			s.must(s.here.Create(s.Context(), &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "w1", Reason: "new DIMM"}}))
		},
		"the remediation goes on": func(s *scene) { s.remediation(func(r *v1alpha1.Remediation) { r.Status.Action = "" }) },
		"the approval is withdrawn": func(s *scene) {
			s.remediation(func(r *v1alpha1.Remediation) { r.Spec.Steps[0].RequireApproval = true })
		},
		"the Machine is paused":  annotates("Machine", "m-w1", pausedAnnotation),
		"the Machine is skipped": annotates("Machine", "m-w1", skipAnnotation),
		"the Cluster is paused": func(s *scene) {
			s.change(capi("Cluster", "prod", nil), func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"paused": true} })
		},
		"the MachineSet is paused": annotates("MachineSet", "workers", pausedAnnotation),
		"the MachineSet is scaled down": func(s *scene) {
			s.change(machineSet(), func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"replicas": int64(2)} })
		},
		"the Machine has another node": func(s *scene) {
			s.change(machineOf("w1"), func(o *unstructured.Unstructured) {
				o.Object["status"] = map[string]any{"nodeRef": map[string]any{"name": "w9"}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole := newScene(t)
			sentAt := 0
			whole.happens = func(call int) {
				if sentAt == 0 && len(whole.sent) > 0 {
					sentAt = call - 1
				}
			}
			whole.play(time.Minute, nil)
			if sentAt < 10 {
				t.Fatalf("it was sent at call %d", sentAt)
			}
			missed := 0
			for call := 1; call <= sentAt; call++ {
				if call < sentAt-14 && call%5 > 0 {
					continue
				}
				s := newScene(t)
				s.happens = func(now int) {
					if now == call {
						say(s)
						s.forbidden = s.clock.Now()
					}
				}
				a := s.play(time.Minute, nil)
				if len(s.sent) > 0 {
					missed++
				}
				if f := a.Finished(); len(s.sent) == 0 && (f == nil || v1alpha1.MayHaveExecuted(f.Reason)) {
					t.Errorf("call %d of %d: ended as %+v", call, sentAt, f)
				}
			}
			// What is said after it was read last, right before the deletion, may come too late: that is
			// the version of the Machine alone, which the deletion asks for.
			if missed > 11 {
				t.Errorf("said before the last %d of %d calls it did not hold", missed, sentAt)
			}
		})
	}
}

func annotates(kind, name, annotation string) func(*scene) {
	return func(s *scene) {
		s.change(capi(kind, name, nil), func(o *unstructured.Unstructured) {
			all := o.GetAnnotations()
			if all == nil {
				all = map[string]string{}
			}
			all[annotation] = ""
			o.SetAnnotations(all)
		})
	}
}

func (s *scene) remediation(change func(*v1alpha1.Remediation)) {
	s.Helper()
	var r v1alpha1.Remediation
	s.must(s.here.Get(s.Context(), client.ObjectKey{Name: "w1-r"}, &r))
	change(&r)
	s.must(s.here.Update(s.Context(), &r))
}

// One that was stopped after its claim is followed by one that reads all again, and not too late.
func TestAClaimIsNotHeldTo(t *testing.T) {
	for _, late := range []time.Duration{time.Minute, 4 * time.Minute, 6 * time.Minute, 2 * time.Hour} {
		s := newScene(t)
		s.happens = func(int) {
			if a := s.action(); a.Status.Claim != nil && s.runners == 1 {
				s.died = true
			}
		}
		_ = s.w.Work(t.Context(), "w1-r-1")
		if s.action().Status.Claim == nil || len(s.sent) > 0 {
			t.Fatalf("it was to die between: %+v, %v", s.action().Status, s.sent)
		}
		s.happens = nil
		s.clock.Step(late)
		s.restart()
		a := s.play(time.Hour, nil)
		if want := map[bool]string{true: v1alpha1.ReasonReplaced, false: v1alpha1.ReasonNotStarted}[late < replaceStart]; a.Finished() == nil || a.Finished().Reason != want {
			t.Errorf("%s later: ended as %+v, want %s", late, a.Finished(), want)
		}
	}
}

// replaceStart is how long after its claim a machine may be deleted.
const replaceStart = 5 * time.Minute

// A dry run says what would be done.
func TestADryRunReplacesNothing(t *testing.T) {
	s := newScene(t)
	s.w.DryRun = true
	s.ended(s.play(time.Minute, nil), v1alpha1.ReasonDryRun, "would have Machine fleet/m-w1 replaced by MachineSet fleet/workers")
	if len(s.sent) > 0 || s.action().Status.Claim != nil {
		t.Errorf("sent %v, %+v", s.sent, s.action().Status)
	}
}

// An action that is deleted while its machine goes is kept, and comes to its end.
func TestADeletedActionIsFollowedToItsEnd(t *testing.T) {
	s := newScene(t)
	a := s.play(time.Hour, map[time.Duration]func(){30 * time.Second: func() {
		s.must(s.here.Delete(t.Context(), &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "w1-r-1"}}))
	}})
	if a == nil {
		t.Fatal("it is gone")
	}
	s.ended(a, v1alpha1.ReasonReplaced, "")
	if a.DeletionTimestamp == nil {
		t.Error("it was not deleted")
	}
}

// What becomes of it is told while it is under way.
func TestWhatIsWaitedForIsTold(t *testing.T) {
	s := newScene(t)
	s.stuck = true
	s.play(10*time.Minute, nil)
	if said := s.action().Status.Replace.Said; !strings.Contains(said, "waits for its finalizers ("+finalizer+")") || !strings.Contains(said, "Deleting: True, DrainingNode, 1 pod is left") {
		t.Errorf("got %q", said)
	}
}
