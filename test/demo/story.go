package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// condition is the type of the condition that the demo is about.
const condition = "ContainerRuntimeUnhealthy"

// story watches the cluster and tells what happens, each thing once.
type story struct {
	demo   *demo
	client client.WithWatch
	told   map[string]bool
	faulty time.Time // when the runtime was stopped
	over   bool
}

func (d *demo) newStory(_ context.Context) (*story, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(d.cluster.Config, client.Options{Scheme: scheme})
	return &story{demo: d, client: c, told: map[string]bool{}}, err
}

// tell waits until the node is healthy, stops its runtime, and tells what
// happens until the remediation has ended.
func (s *story) tell(ctx context.Context) error {
	nodes, err := s.client.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		return err
	}
	defer nodes.Stop()
	remediations, err := s.client.Watch(ctx, &v1alpha1.RemediationList{})
	if err != nil {
		return err
	}
	defer remediations.Stop()
	actions, err := s.client.Watch(ctx, &v1alpha1.NodeActionList{})
	if err != nil {
		return err
	}
	defer actions.Stop()
	for !s.over {
		var event watch.Event
		select {
		case event = <-nodes.ResultChan():
		case event = <-remediations.ResultChan():
		case event = <-actions.ResultChan():
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the story did not end within %s", storyTimeout)
			}
			return ctx.Err()
		}
		if err := s.see(event.Object); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) see(obj runtime.Object) error {
	switch o := obj.(type) {
	case *corev1.Node:
		if o.Name == s.demo.node {
			return s.seeNode(o)
		}
	case *v1alpha1.NodeAction:
		s.seeAction(o)
	case *v1alpha1.Remediation:
		s.seeRemediation(o)
	}
	return nil
}

func (s *story) seeNode(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		if c.Type != condition {
			continue
		}
		switch {
		case c.Status == corev1.ConditionFalse && s.faulty.IsZero():
			s.demo.say("%s: %s=False: %s", node.Name, condition, c.Message)
			s.demo.say("stopping the container runtime of %s (SIGSTOP): it accepts calls and never answers", node.Name)
			s.faulty = time.Now()
			fmt.Println()
			return s.demo.runtime.Process.Signal(syscall.SIGSTOP)
		case c.Status == corev1.ConditionTrue:
			s.say("condition", "%s=True: %s", condition, c.Message)
		case c.Status == corev1.ConditionFalse && s.told["condition"]:
			s.say("condition cleared", "%s=False: %s", condition, c.Message)
		}
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

func (s *story) seeRemediation(r *v1alpha1.Remediation) {
	s.sayOf("remediation", r.Name, "%s: policy %s, %d steps", r.Name, r.Spec.Policy.Name, len(r.Spec.Steps))
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationProgressing)
	if c == nil {
		return
	}
	switch c.Reason {
	case v1alpha1.ReasonVerifying:
		s.sayOf("verifying", fmt.Sprint(r.Status.Step, r.Status.Attempt), "did step %d help? %s", r.Status.Step, c.Message)
	case v1alpha1.ReasonHealing:
		s.sayOf("healing", r.Name, "%s; it has to stay so for %s", c.Message, r.Spec.Recovery.HealthyFor)
	}
	if r.Ended() {
		s.sayOf("recovered", r.Name, "%s: %s; the permit is given back", c.Reason, c.Message)
		s.over = true
	}
}

func (s *story) say(chapter, format string, args ...any) { s.sayOf(chapter, "", format, args...) }

// sayOf prints a line of the story once per chapter and subject, with the time
// since the runtime was stopped.
func (s *story) sayOf(chapter, subject, format string, args ...any) {
	if s.told[chapter+subject] {
		return
	}
	s.told[chapter+subject], s.told[chapter] = true, true
	fmt.Printf("+%5.1fs  %-18s %s\n", time.Since(s.faulty).Seconds(), chapter, fmt.Sprintf(format, args...))
}
