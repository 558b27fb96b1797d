package detector

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks/exporter"
	config "github.com/nodemend/nodemend/config/detector"
)

func TestAskingForReadyOnEveryRunBecomesRare(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC))
	reads := 0
	read := func(context.Context) (*corev1.Node, error) {
		reads++
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Message: "PLEG is not healthy"}}}}, nil
	}
	r := &readyCondition{node: read, nodeName: "n", clock: clock}
	ask := func(runs int) int {
		before := reads
		for range runs {
			if c, err := r.get(t.Context()); err != nil || c.Message != "PLEG is not healthy" {
				t.Fatal(c, err)
			}
			clock.Step(10 * time.Second)
		}
		return reads - before
	}
	if got := ask(6); got != 2 {
		t.Errorf("%d reads in the first minute, want 2", got)
	}
	ask(60)
	if got := ask(360); got > 13 {
		t.Errorf("%d reads in an hour, want one in five minutes", got)
	}
	clock.Step(time.Hour)
	if got := ask(6); got != 2 {
		t.Errorf("%d reads in a minute after a break, want 2", got)
	}
}

// played is a kubelet whose Ready is asked for.
type played struct {
	*testing.T
	clock *clocktesting.FakeClock
	ready *readyCondition
	// says is the message of Ready, and reads is how often it was read. during is called while it is.
	says   string
	reads  int
	during func()
}

func newPlayed(t *testing.T) *played {
	k := &played{T: t, clock: clocktesting.NewFakeClock(time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)), during: func() {}}
	k.ready = &readyCondition{nodeName: "n", clock: k.clock, node: func(context.Context) (*corev1.Node, error) {
		k.reads++
		says := k.says
		k.during()
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: says}}}}, nil
	}}
	return k
}

// heard runs a check every ten seconds, and returns what that is told last.
func (k *played) heard(runs int) string {
	k.Helper()
	var last corev1.NodeCondition
	for range runs {
		k.clock.Step(10 * time.Second)
		var err error
		if last, err = k.ready.get(k.Context()); err != nil {
			k.Fatal(err)
		}
	}
	return last.Message
}

const (
	unhealthy = "PLEG is not healthy: pleg was last seen active 3m11s ago; threshold is 3m0s"
	other     = "container runtime network not ready"
)

func TestThatPLEGIsNotHealthyIsNotToldLongerThanItIsSo(t *testing.T) {
	k := newPlayed(t)
	k.says = other
	k.heard(60)
	k.says = unhealthy
	if got := k.heard(30); got != unhealthy {
		t.Errorf("after five minutes: %q", got)
	}
	k.says = other
	if got := k.heard(3); got != other {
		t.Errorf("half a minute after it has ended: %q", got)
	}
}

func TestAfterADemandReadyIsReadAnew(t *testing.T) {
	k := newPlayed(t)
	k.says = unhealthy
	k.heard(2)
	k.says = other
	k.ready.demand()
	if got := k.heard(1); got != other {
		t.Errorf("right after a demand: %q", got)
	}
	before := k.reads
	k.heard(1)
	if k.reads != before {
		t.Errorf("%d reads after one demand", k.reads-before+1)
	}

	k.says, k.during = unhealthy, k.ready.demand // while it is read
	k.ready.demand()
	k.heard(1)
	k.says, k.during = other, func() {}
	if got := k.heard(1); got != other {
		t.Errorf("after a demand while it was read: %q", got)
	}
}

// The clock of the server is learnt from its answers.
func TestWhoNeedsAnAnswerOfTheServerGetsNoEarlierOne(t *testing.T) {
	k := newPlayed(t)
	k.heard(1)
	node, err := newNode(Options{Config: config.Default(), NodeName: "n"}, k.ready, nil, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Kubelet.Close()
	if err := node.AskServer(t.Context()); err != nil || k.reads != 2 {
		t.Errorf("%d reads, want 2; %v", k.reads, err)
	}
}

func TestADemandOfTheDetectorIsOneOfReady(t *testing.T) {
	k := newPlayed(t)
	conditions, err := exporter.New(nil, exporter.Options{NodeName: "n", Offline: true, Clock: k.clock, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	d := &detector{ready: k.ready, conditions: conditions}
	k.heard(1)
	d.demand()
	k.heard(1)
	if k.reads != 2 {
		t.Errorf("%d reads, want 2", k.reads)
	}
}
