//go:build integration

package command

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// perDial is how many connections to systemd a dial makes.
const perDial = 1

func newRelayedScene(t *testing.T, r *slowRelay) (*scene, *slowRelay) {
	t.Helper()
	s := newScene(t, TransientUnit)
	s.relayed(r)
	s.Remedy = New(s.opts)
	return s, r
}

func (s *scene) expectAccepted(r *slowRelay, want int) {
	s.Helper()
	if got, _ := r.connections(); got != want {
		s.Errorf("there have been %d connections to systemd, want %d", got, want)
	}
}

// expectOpen waits until there are so many connections.
func (s *scene) expectOpen(r *slowRelay, want int) {
	s.Helper()
	open := 0
	if err := wait.PollUntilContextTimeout(s.Context(), 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		_, open = r.connections()
		return open == want, nil
	}); err != nil {
		s.Errorf("%d connections to systemd are open, want %d", open, want)
	}
}

func TestExecuteTakesTheConnectionOfPrepareAndClosesIt(t *testing.T) {
	s, r := newRelayedScene(t, &slowRelay{})
	order := s.order("exit 3")
	s.expectAccepted(r, perDial)
	s.expectOpen(r, perDial)
	s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonFailed, "exit status 3 after ")
	s.expectAccepted(r, perDial)
	s.expectOpen(r, 0)
}

func TestAConnectionThatCanNotBeReliedOnIsMadeAgain(t *testing.T) {
	for name, spoil := range map[string]func(*scene, *slowRelay, *remedy.Order){
		"it is broken":            func(s *scene, r *slowRelay, _ *remedy.Order) { r.cut(); s.expectOpen(r, 0) },
		"it is old":               func(s *scene, _ *slowRelay, _ *remedy.Order) { s.ready.Load().at = time.Now().Add(-2 * freshFor) },
		"it is for another order": func(_ *scene, _ *slowRelay, o *remedy.Order) { o.UID = "another" },
		"there is none":           func(s *scene, _ *slowRelay, _ *remedy.Order) { s.forget() },
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newRelayedScene(t, &slowRelay{})
			path, count := s.counter()
			order := s.order("echo x >>" + path)
			spoil(s, r, &order)
			s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonSucceeded, "exit status 0 after ")
			s.expectAccepted(r, 2*perDial)
			s.expectOpen(r, 0)
			if count() != 1 {
				t.Errorf("executed %d times", count())
			}
		})
	}
}

func TestAStartIsNotRepeatedOnAnotherConnection(t *testing.T) {
	for name, test := range map[string]struct {
		relay *slowRelay
		point string // where the connections are cut
		want  map[string]int
	}{
		"before it is sent": {&slowRelay{}, "before-start", map[string]int{v1alpha1.ReasonInterrupted: 0}},
		// systemd may read it before or after it is asked for the unit.
		"after it was sent": {&slowRelay{cutAt: "StartTransientUnit"}, "", map[string]int{v1alpha1.ReasonInterrupted: 0, v1alpha1.ReasonSucceeded: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newRelayedScene(t, test.relay)
			path, count := s.counter()
			order := s.order("echo x >>" + path)
			ctx := remedy.WithPoints(t.Context(), func(point string) {
				if point == test.point {
					r.cut()
				}
			})
			got := s.Execute(ctx, order)
			if want, known := test.want[got.Reason]; !known || count() != want {
				t.Errorf("executed %d times, and ended as %s (%s)", count(), got.Reason, got.Message)
			}
			if accepted, _ := r.connections(); accepted < 2*perDial {
				t.Error("no connection was cut")
			}
		})
	}
}

func TestWhatPrepareKeepsIsClosedWithItsContextOrByTheNext(t *testing.T) {
	s, r := newRelayedScene(t, &slowRelay{})
	ctx, cancel := context.WithCancel(t.Context())
	good := remedy.Order{Action: "good", UID: "1", Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "true"}}}
	refused := good
	refused.Env = []string{"A=\ufffe"}
	for _, order := range []remedy.Order{good, refused, good} {
		if _, got := s.Prepare(ctx, order); (got != nil) != (len(order.Env) > 0) {
			t.Errorf("Prepare gives %+v", got)
		}
	}
	s.expectAccepted(r, 3*perDial)
	s.expectOpen(r, perDial)
	cancel()
	s.expectOpen(r, 0)
}
