package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// story watches the cluster and tells what happens, each thing once.
type story struct {
	plot
	demo   *demo
	told   map[string]bool
	faulty time.Time // when the fault was made

	permit bool // the node has one
	ended  bool // the remediation

	timer <-chan time.Time
	next  func() error // when the timer fires
}

// tell waits until the node is healthy, makes the fault, and tells what happens until
// the remediation has ended and the node is in service.
func (d *demo) tell(ctx context.Context, p plot) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storyTimeout, fmt.Errorf("the story did not end within %s", storyTimeout))
	defer cancel()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.NewWithWatch(d.cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	var kinds [5]<-chan watch.Event
	var watches []watch.Interface
	defer func() {
		for _, w := range watches {
			w.Stop()
		}
	}()
	for i, list := range [len(kinds)]client.ObjectList{
		&corev1.NodeList{}, &v1alpha1.RemediationList{}, &v1alpha1.NodeActionList{}, &v1alpha1.NodeMaintenanceList{}, &v1alpha1.RemediationBudgetList{},
	} {
		w, err := c.Watch(ctx, list)
		if err != nil {
			return err
		}
		watches = append(watches, w)
		kinds[i] = w.ResultChan()
	}
	fmt.Printf("\n%s\n\n", p.title)
	s := &story{plot: p, demo: d, told: map[string]bool{}}
	for !s.over() {
		var event watch.Event
		select {
		case event = <-kinds[0]:
		case event = <-kinds[1]:
		case event = <-kinds[2]:
		case event = <-kinds[3]:
		case event = <-kinds[4]:
		case <-s.timer:
			if err := s.next(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.see(event.Object); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether the remediation has ended, and all that it took is given back.
func (s *story) over() bool {
	return s.ended && s.told["permit"] && !s.permit && s.told["cordoned"] == s.told["back in service"]
}

// later has next called after that time.
func (s *story) later(after time.Duration, next func() error) {
	s.timer, s.next = time.After(after), next
}

func (s *story) see(obj runtime.Object) error {
	switch o := obj.(type) {
	case *corev1.Node:
		if o.Name == s.demo.node {
			if err := s.seeNode(o); err != nil {
				return err
			}
		}
	case *v1alpha1.NodeAction:
		if o.Spec.Policy.Name == s.policy {
			s.seeAction(o)
		}
	case *v1alpha1.Remediation:
		if o.Spec.Policy.Name == s.policy {
			s.seeRemediation(o)
		}
	case *v1alpha1.NodeMaintenance:
		s.seeMaintenance(o)
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
		s.say("back in service", "%s is uncordoned, and nobody touched Kubernetes", node.Name)
	}
	c := v1alpha1.FindNodeCondition(node, s.condition)
	if c == nil {
		return nil
	}
	switch {
	case c.Status == corev1.ConditionFalse && s.faulty.IsZero():
		s.faulty = time.Now()
		s.say("healthy", "%s: %s=False: %s", node.Name, s.condition, c.Message)
		return s.fault(s)
	case c.Status == corev1.ConditionTrue:
		s.say("condition", "%s=True: %s", s.condition, c.Message)
	case c.Status == corev1.ConditionFalse && s.told["condition"]:
		s.say("condition cleared", "%s=False: %s", s.condition, c.Message)
	}
	return nil
}

func (s *story) seeAction(a *v1alpha1.NodeAction) {
	s.sayOf("action", a.Name, "%s: step %d, attempt %d for the runner on %s", a.Name, a.Spec.Step, a.Spec.Attempt, a.Spec.NodeName)
	if a.Status.Claim != nil {
		s.sayOf("action claimed", a.Name, "the runner on %s claims it, and reads the command from policy %s", a.Spec.NodeName, a.Spec.Policy.Name)
	}
	if finished := a.Finished(); finished != nil {
		output := ""
		if a.Status.Result != nil {
			output = a.Status.Result.Output
		}
		s.sayOf("action finished", a.Name, "%s: %s; it printed %q", finished.Reason, finished.Message, output)
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
	_, permit := b.Status.Groups[v1alpha1.UngroupedNodes].Permits[s.demo.node]
	switch {
	case permit && !s.permit:
		s.sayOf("permit", b.ResourceVersion, "budget %s: %s may be acted on", b.Name, s.demo.node)
	case !permit && s.permit:
		s.sayOf("permit returned", b.ResourceVersion, "budget %s: others may be acted on", b.Name)
	}
	s.permit = permit
}

func (s *story) seeRemediation(r *v1alpha1.Remediation) {
	s.sayOf("remediation", r.Name, "%s: policy %s, %s", r.Name, r.Spec.Policy.Name, steps(len(r.Spec.Steps)))
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationProgressing)
	if c == nil {
		return
	}
	switch c.Reason {
	case v1alpha1.ReasonVerifying:
		s.sayOf("verifying", fmt.Sprint(r.Status.Step, r.Status.Attempt), "did step %d help? %s", r.Status.Step, c.Message)
	case v1alpha1.ReasonInMaintenance:
		s.say("parked", "%s", c.Message)
	case v1alpha1.ReasonHealing:
		s.say("healing", "%s; it has to stay so for %s", c.Message, r.Spec.Recovery.HealthyFor)
	}
	if r.Ended() {
		s.say("recovered", "%s: %s", c.Reason, c.Message)
		s.ended = true
	}
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
	if s.told[chapter+subject] {
		return
	}
	s.told[chapter+subject], s.told[chapter] = true, true
	fmt.Printf("+%5.1fs  %-18s %s\n", time.Since(s.faulty).Seconds(), chapter, fmt.Sprintf(format, args...))
}
