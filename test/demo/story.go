package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/repairnote"
)

// story watches the cluster and tells what happens, each thing once.
type story struct {
	plot
	demo   *demo
	told   map[string]bool
	faulty time.Time // when the fault was made

	permit bool   // the node has one
	over   string // the remediation that has ended

	timer <-chan time.Time
	next  func() error // when the timer fires
}

// tell waits until the node is healthy, makes the fault, and tells what happens until
// the remediation has ended and the node is in service. It ends early, with an error, when
// one of the programs does.
func (d *demo) tell(ctx context.Context, p plot) (*story, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(d.cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	s := &story{plot: p, demo: d, told: map[string]bool{}}
	for err = errWatchEnded; errors.Is(err, errWatchEnded); {
		err = s.listen(ctx, c)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), d.logTails())
	}
	d.past[s.over] = true
	return s, err
}

// errWatchEnded is no failure: the API server ends every watch after a while.
var errWatchEnded = errors.New("the API server has ended a watch")

// listen tells what it sees until the story is over.
func (s *story) listen(ctx context.Context, c client.WithWatch) error {
	var kinds [6]<-chan watch.Event
	var watches []watch.Interface
	defer func() {
		for _, w := range watches {
			w.Stop()
		}
	}()
	for i, list := range [len(kinds)]client.ObjectList{
		&corev1.NodeList{}, &v1alpha1.RemediationList{}, &v1alpha1.NodeActionList{}, &v1alpha1.NodeMaintenanceList{}, &v1alpha1.RemediationBudgetList{}, &corev1.PodList{},
	} {
		w, err := c.Watch(ctx, list)
		if err != nil {
			return err
		}
		watches = append(watches, w)
		kinds[i] = w.ResultChan()
	}
	for !s.isOver() {
		var event watch.Event
		open := true
		select {
		case event, open = <-kinds[0]:
		case event, open = <-kinds[1]:
		case event, open = <-kinds[2]:
		case event, open = <-kinds[3]:
		case event, open = <-kinds[4]:
		case event, open = <-kinds[5]:
		case on := <-s.demo.machine.switched:
			s.seePower(ctx, on)
			continue
		case <-s.timer:
			if err := s.next(); err != nil {
				return err
			}
			continue
		case <-s.demo.exited("controller"):
			return s.demo.died("controller")
		case <-s.demo.exited(remoteRunner):
			return s.demo.died(remoteRunner)
		case <-s.demo.exited("detector"):
			return s.demo.died("detector")
		case <-s.demo.exited("runner"):
			return s.demo.died("runner")
		case <-s.demo.exited(runtimeName):
			return s.demo.died(runtimeName)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !open || event.Type == watch.Error {
			return errWatchEnded
		}
		if err := s.see(event.Object); err != nil {
			return err
		}
	}
	return nil
}

// isOver reports whether the remediation has ended, and all that it took is given back.
func (s *story) isOver() bool {
	return s.over != "" && (s.told["permit"] || !s.told["action"]) && !s.permit && s.told["cordoned"] == s.told["in service"] &&
		s.told["tainted"] == s.told["untainted"] && s.told["moved"] == (s.pod != "")
}

// took is how long it took from the fault, or its first sight, to now.
func (s *story) took() time.Duration { return time.Since(s.faulty).Round(time.Second / 10) }

// later has next called after that time.
func (s *story) later(after time.Duration, next func() error) {
	s.timer, s.next = time.After(after), next
}

func (s *story) see(obj runtime.Object) error {
	switch o := obj.(type) {
	case *corev1.Node:
		if o.Name == s.node {
			if err := s.seeNode(o); err != nil {
				return err
			}
		}
	case *v1alpha1.NodeAction:
		if o.Spec.Policy.Name == s.policy && !s.demo.past[o.Spec.Remediation] {
			s.seeAction(o)
		}
	case *v1alpha1.Remediation:
		if o.Spec.Policy.Name == s.policy && !s.demo.past[o.Name] {
			if err := s.seeRemediation(o); err != nil {
				return err
			}
		}
	case *v1alpha1.NodeMaintenance:
		s.seeMaintenance(o)
	case *corev1.Pod:
		s.seePod(o)
	case *v1alpha1.RemediationBudget:
		s.seeBudget(o)
	}
	if s.parked != nil && s.told["parked"] && s.told["permit"] && !s.permit {
		parked := s.parked
		s.parked = nil
		return parked(s)
	}
	return nil
}

func (s *story) seeNode(node *corev1.Node) error {
	if node.Spec.Unschedulable {
		s.say("cordoned", "%s takes no new pods", node.Name)
	} else if s.told["cordoned"] {
		s.say("in service", "%s is uncordoned%s", node.Name, map[bool]string{false: ", and nobody touched Kubernetes"}[s.told["approved"]])
	}
	s.seeTaint(node)
	c := v1alpha1.FindNodeCondition(node, s.condition)
	if c == nil {
		return nil
	}
	switch {
	case s.faulty.IsZero() && s.fault == nil:
		if c.Status == s.sick {
			s.faulty = time.Now()
			s.demo.screen.line("")
			s.say("condition", "%s=%s: %s", s.condition, c.Status, repairnote.Said(c.Message))
		}
	case c.Status == s.well && s.faulty.IsZero():
		s.faulty = time.Now()
		s.say("healthy", "%s: %s=%s: %s", node.Name, s.condition, c.Status, c.Message)
		return s.fault(s)
	case c.Status == s.sick:
		s.say("condition", "%s=%s: %s", s.condition, c.Status, repairnote.Said(c.Message))
	case c.Status == s.well && s.told["condition"]:
		s.say("cleared", "%s=%s: %s", s.condition, c.Status, c.Message)
	}
	return nil
}

func (s *story) seeAction(a *v1alpha1.NodeAction) {
	who, what := "the runner on "+a.Spec.NodeName, "the command"
	if a.Spec.Executor == v1alpha1.ExecutorRemote {
		who, what = "the remote runner", "what to do"
	}
	s.sayOf("action", a.Name, "%s: step %d, attempt %d for %s", a.Name, a.Spec.Step, a.Spec.Attempt, who)
	if a.Status.Claim != nil {
		s.sayOf("claimed", a.Name, "%s claims it, and reads %s from policy %s", who, what, a.Spec.Policy.Name)
	}
	s.seeCycle(a)
	if finished := a.Finished(); finished != nil && a.Spec.Executor == v1alpha1.ExecutorRemote {
		what, _, _ := strings.Cut(finished.Message, ". ") // the proof, which was told
		s.sayOf("finished", a.Name, "%s: %s", finished.Reason, what)
	} else if finished != nil {
		output := ""
		if a.Status.Result != nil {
			output = a.Status.Result.Output
		}
		s.sayOf("finished", a.Name, "%s: %s; it printed %q", finished.Reason, finished.Message, strings.TrimSpace(output))
	}
}

func (s *story) seeMaintenance(m *v1alpha1.NodeMaintenance) {
	s.sayOf("maintenance", m.Name, "%s: %s; by %s", m.Name, m.Spec.Reason, m.Spec.RequestedBy)
	switch c := m.Condition(v1alpha1.MaintenanceDrained); {
	case c == nil:
	case m.Drained():
		s.sayOf("drained", m.Name, "%s", c.Message)
	default:
		left := int32(0)
		if m.Status.Drain != nil {
			left = m.Status.Drain.Left
		}
		s.sayOf("draining", fmt.Sprint(left), "%s", c.Message)
	}
}

// seeBudget tells whenever the node gets a permit, and when it has none any more.
// There is one budget.
func (s *story) seeBudget(b *v1alpha1.RemediationBudget) {
	_, permit := b.Status.Groups[v1alpha1.UngroupedNodes].Permits[s.node]
	switch {
	case permit && !s.permit:
		s.sayOf("permit", b.ResourceVersion, "budget %s: %s may be acted on", b.Name, s.node)
	case !permit && s.permit:
		s.sayOf("returned", b.ResourceVersion, "budget %s: others may be acted on", b.Name)
	}
	s.permit = permit
}

func (s *story) seeRemediation(r *v1alpha1.Remediation) error {
	s.sayOf("remediation", r.Name, "%s: policy %s, %s", r.Name, r.Spec.Policy.Name, steps(len(r.Spec.Steps)))
	if r.Status.BlockedBy == gates.ReasonApprovalRequired && s.asked != nil && !s.told["approved"] {
		s.say("waits", "for a person: the step has requireApproval")
		s.say("approved", "by you, after a look")
		if err := s.asked(); err != nil {
			return err
		}
	}
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationProgressing)
	if c == nil {
		return nil
	}
	switch c.Reason {
	case v1alpha1.ReasonVerifying:
		if s.told["proof"] { // it would be told again
			break
		}
		s.sayOf("verifying", fmt.Sprint(r.Status.Step, r.Status.Attempt), "did step %d help? %s", r.Status.Step, c.Message)
	case v1alpha1.ReasonInMaintenance:
		s.say("parked", "%s", c.Message)
	case v1alpha1.ReasonHealing:
		s.say("healing", "%s; it has to stay so for %s", c.Message, r.Spec.Recovery.HealthyFor)
	}
	if r.Ended() {
		s.say("recovered", "%s: %s", c.Reason, c.Message)
		s.over = r.Name
	}
	return nil
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

func (s *story) say(chapter, format string, args ...any) { s.sayOf(chapter, "", format, args...) }

// sayOf prints a line of the story once per chapter and subject, with the time
// since the fault.
func (s *story) sayOf(chapter, subject, format string, args ...any) {
	if s.faulty.IsZero() || s.told[chapter+subject] {
		return
	}
	s.told[chapter+subject], s.told[chapter] = true, true
	text := strings.NewReplacer("unix://"+s.demo.dir+"/", "", s.demo.dir+"/", "").Replace(fmt.Sprintf(format, args...))
	s.demo.screen.item(fmt.Sprintf("+%4.1fs ", time.Since(s.faulty).Seconds()), chapterStyles[chapter], chapter, 12, text)
}

// chapterStyles are the styles of those chapters that people look for.
var chapterStyles = map[string]style{
	"fault": red, "condition": red, "cleared": green, "recovered": green, "in service": green, "healthy": green,
	"finished": cyan, "maintenance": yellow, "cordoned": yellow, "off": yellow, "on": yellow, "waits": yellow,
	"proof": cyan, "tainted": yellow, "moved": green, "untainted": green,
}
