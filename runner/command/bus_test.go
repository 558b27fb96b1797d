//go:build integration

package command

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestACommandIsNotStartedOverTheMessageBusButFollowedThere(t *testing.T) {
	s := newScene(t, TransientUnit)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("echo up >" + up.inside + "; read x <" + gate.inside + "; exit 5")
	byBus := s.opts
	byBus.Dialer = systemd.Dialer{Bus: s.host.Bus()}
	_, got := New(byBus).Prepare(t.Context(), order)
	s.expect(got, v1alpha1.ReasonStartFailed, "systemd answers over the message bus alone")
	byBus.Execution = Auto
	prepared, got := New(byBus).Prepare(t.Context(), order)
	if got != nil || prepared.Execution != v1alpha1.ExecutionDirect || !strings.HasPrefix(prepared.Note, "executed directly, since systemd answers over the message bus alone") {
		t.Errorf("got %+v, %+v; want direct execution", prepared, got)
	}

	cmd := s.runner(order, "")
	up.await()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.expectKilled(cmd)
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- New(byBus).Adopt(t.Context(), order) }()
	gate.release()
	s.expect(<-outcomes, v1alpha1.ReasonFailed, "exit status 5 after ")
	if err := New(byBus).Clean(t.Context(), order); err != nil {
		t.Error(err)
	}
}

// A slow host: systemd stands still at any moment, but not for so long that it is too late
// with an answer.
func TestACommandThatRanIsReportedAsSuchThoughSystemdStandsStillNowAndThen(t *testing.T) {
	s := ownScene(t)
	s.opts.Dialer.Bus = "" // there is no other way
	s.Remedy = New(s.opts)
	path, count := s.counter()
	var orders []remedy.Order
	for range 5 {
		orders = append(orders, s.order("echo x >>"+path+"; sleep 1; exit 5"))
	}
	enough, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-enough:
				return
			case <-time.After(rand.N(300 * time.Millisecond)):
			}
			thaw := s.host.Freeze(t)
			<-time.After(rand.N(answerTime / 4))
			thaw()
			conn, err := systemd.Dialer{Private: s.opts.Dialer.Private, Patience: time.Minute}.Dial(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close() // it has done all that it was asked for meanwhile
		}
	}()
	for i, order := range orders {
		s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonFailed, "exit status 5 after ")
		if count() != i+1 {
			t.Errorf("%d commands have run, want %d", count(), i+1)
		}
	}
	close(enough)
	<-stopped
}

func TestASystemdThatIsExecutedAnewIsAskedAgain(t *testing.T) {
	s := ownScene(t)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("echo up >" + up.inside + "; read x <" + gate.inside + "; echo end; exit 5")
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- s.Execute(t.Context(), order) }()
	up.await()
	if _, err := s.host.Run(t.Context(), "systemctl", "daemon-reexec"); err != nil {
		t.Fatal(err)
	}
	gate.release()
	if got := s.expect(<-outcomes, v1alpha1.ReasonFailed, "exit status 5 after "); got.Output != "end\n" {
		t.Errorf("got output %q", got.Output)
	}
}
