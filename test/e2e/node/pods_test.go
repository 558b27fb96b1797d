//go:build e2e

package node_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

// long is a script that mends the fault when it is told to go on, or ends with it.
func long() v1alpha1.Step {
	step := script("while [ -e " + faultFile + " ] && [ ! -e " + goOnFile + " ]; do sleep 1; done\nrm " + faultFile + "\necho mended")
	step.Timeout = *story.Duration(2 * round)
	return step
}

func (s *scenario) goOn() { s.run("touch " + goOnFile) }

func TestAConditionStaysWhenThePodOfTheDetectorIsDeleted(t *testing.T) {
	s := begin(t)
	s.run("touch " + faultFile)
	s.Until(moment, "the fault is reported", s.Is(faultCondition, corev1.ConditionTrue))
	before := s.Object()
	old := s.pod("detector")

	deleted := time.Now()
	s.Must(s.Delete(s.Ctx, old))
	s.keeping(before, func() { s.replaced(old) })
	s.Until(moment, "a check of the new detector confirms it", s.Confirms(faultCondition, corev1.ConditionTrue, deleted.Add(time.Second)))
	s.keeps(before)
	s.Proved("status and transition times of %d conditions stayed; the new pod has confirmed the fault by itself", len(ours()))

	s.run("rm " + faultFile)
	s.Until(moment, "the end of the fault is reported", s.Is(faultCondition, corev1.ConditionFalse))
}

// keeping looks at the node's conditions as fast as it can while do is under way.
func (s *scenario) keeping(before *corev1.Node, do func()) {
	s.Helper()
	done, failed := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(failed)
		tick := time.NewTicker(poll / 4)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now := &corev1.Node{}
			if err := s.Get(s.Ctx, client.ObjectKeyFromObject(before), now); err == nil {
				if changed := changed(before, now); changed != "" {
					failed <- changed
					return
				}
			}
		}
	}()
	func() {
		defer close(done)
		do()
	}()
	if changed := <-failed; changed != "" {
		s.Fatal(changed)
	}
}

// keeps expects that none of our conditions has changed.
func (s *scenario) keeps(before *corev1.Node) {
	s.Helper()
	if changed := changed(before, s.Object()); changed != "" {
		s.Fatal(changed)
	}
}

// changed says which of our conditions has another status or transition time.
func changed(before, now *corev1.Node) string {
	for _, conditionType := range ours() {
		a, b := story.Condition(before, conditionType), story.Condition(now, conditionType)
		if a.Status != b.Status || !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
			return story.Describe(a) + " of " + a.LastTransitionTime.String() + " has become " + story.Describe(b) + " of " + b.LastTransitionTime.String()
		}
	}
	return ""
}

func TestACommandIsAdoptedAndRunOnceWhenThePodOfTheRunnerGoes(t *testing.T) {
	for name, remove := range map[string]func(*scenario, *corev1.Pod){
		"deleted": func(s *scenario, pod *corev1.Pod) { s.Must(s.Delete(s.Ctx, pod)) },
		"deleted by force": func(s *scenario, pod *corev1.Pod) {
			s.Must(s.Delete(s.Ctx, pod, client.GracePeriodSeconds(0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.onFault("adopted", long())
			s.run("touch " + faultFile)
			action := s.claimed()
			s.begun()
			old := s.pod("runner")
			remove(s, old)
			s.replaced(old)
			if state := s.Remediation().State(); state != v1alpha1.ReasonActing {
				t.Fatalf("the command runs, and the remediation is %s", state)
			}
			s.goOn()
			s.recovered("command Succeeded")
			s.ranOnce(action, "mended")
			if now := s.claim(action); now.RunnerID != action.Status.Claim.RunnerID || !now.Time.Equal(&action.Status.Claim.Time) {
				t.Errorf("it was claimed a second time: %+v, first %+v", now, action.Status.Claim)
			}
			s.Proved("the new pod's runner has adopted what the old one had claimed")
		})
	}
}

func (s *scenario) claim(action *v1alpha1.NodeAction) *v1alpha1.Claim {
	s.Helper()
	now := &v1alpha1.NodeAction{}
	s.Must(s.Get(s.Ctx, client.ObjectKeyFromObject(action), now))
	return now.Status.Claim
}

func TestAnUpgradeInTheMiddleOfARemediationChangesNoConditionAndLosesNoCommand(t *testing.T) {
	s := begin(t)
	for _, n := range s.nodes {
		_, err := n.Exec(s.Ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image+":"+version, image+":"+nextVersion)
		s.Must(err)
	}
	next, err := s.render(s.Ctx, nextVersion)
	s.Must(err)
	s.onFault("upgraded", long())
	s.run("touch " + faultFile)
	action := s.claimed()
	s.begun()
	before, detector, runner := s.Object(), s.pod("detector"), s.pod("runner")

	// As docs/install.md has it.
	s.keeping(before, func() {
		s.kubectlMust("--namespace="+namespace, "scale", "deployment/nodemend-controller", "--replicas=0")
		s.kubectlMust("apply", "--server-side", "--force-conflicts", "-f", next, "--selector=app.kubernetes.io/component!=controller")
		s.Must(s.rolledOut(s.Ctx, "daemonset/nodemend-runner", "daemonset/nodemend-detector"))
		s.kubectlMust("apply", "--server-side", "--force-conflicts", "-f", next)
	})
	if s.pod("detector").UID == detector.UID || s.pod("runner").UID == runner.UID {
		t.Fatal("the pods are still the old ones")
	}
	if state := s.Remediation().State(); state != v1alpha1.ReasonActing {
		t.Fatalf("the command runs, and the remediation is %s", state)
	}
	s.goOn()
	s.Proved("all conditions stayed as they were while detectors, runners and controllers were replaced")
	s.manifests = next
	s.recovered("command Succeeded")
	s.ranOnce(action, "mended")
	s.Must(s.rolledOut(s.Ctx))
	for _, role := range []string{"detector", "runner"} {
		if got := s.pod(role).Spec.Containers[0].Image; got != image+":"+nextVersion {
			t.Errorf("the %s runs %s", role, got)
		}
	}
}
