package detector

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
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
