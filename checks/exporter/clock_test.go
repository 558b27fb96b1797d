package exporter

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// machine has a clock that somebody sets, and sleeps: the monotonic clock does not
// see that.
type machine struct {
	clock.RealClock
	mu         sync.Mutex
	set, slept time.Duration
}

func (m *machine) change(by func(*machine)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	by(m)
}

func (m *machine) Now() (now time.Time) {
	m.change(func(m *machine) { now = time.Now().Add(m.set + m.slept) })
	return now
}

func (m *machine) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

// server is what time it is there.
func (m *machine) server() (now time.Time) {
	m.change(func(m *machine) { now = time.Now().Add(m.slept) })
	return now
}

// RoundTrip answers with the server's date.
func (m *machine) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {m.server().UTC().Format(http.TimeFormat)}}, Body: http.NoBody}, nil
}

// datedNode is a fakeNode whose answers have a date.
type datedNode struct {
	*fakeNode
	transport http.RoundTripper
}

func (n datedNode) Get(ctx context.Context) (*corev1.Node, error) {
	node, err := n.fakeNode.Get(ctx)
	n.answered(err)
	return node, err
}

func (n datedNode) PatchStatus(ctx context.Context, data []byte) error {
	err := n.fakeNode.PatchStatus(ctx, data)
	n.answered(err)
	return err
}

func (n datedNode) answered(err error) {
	if err == nil {
		response, _ := n.transport.RoundTrip(&http.Request{})
		_ = response.Body.Close()
	}
}

func TestATransitionIsDatedRightWhateverHappensToTheClock(t *testing.T) {
	const hour = time.Hour
	for name, tc := range map[string]struct {
		// At the start the clock is off by this.
		off time.Duration
		// away is whether the API server answers only after all has happened.
		away bool
		// change happens to the machine some seconds before a problem is seen, and
		// later to before it is over.
		change, later func(*machine)
	}{
		"nothing":                         {},
		"set ahead, and back":             {change: func(m *machine) { m.set += hour }, later: func(m *machine) { m.set -= hour }},
		"set back, and ahead":             {change: func(m *machine) { m.set -= hour }, later: func(m *machine) { m.set += hour }},
		"set ahead before any answer":     {away: true, change: func(m *machine) { m.set += hour }},
		"put right":                       {off: -hour, change: func(m *machine) { m.set += hour }},
		"put right before any answer":     {off: -30 * 365 * 24 * hour, away: true, change: func(m *machine) { m.set = 0 }},
		"set wrong before any answer":     {away: true, change: func(m *machine) { m.set -= hour }, later: func(m *machine) { m.set -= hour }},
		"slept":                           {change: func(m *machine) { m.slept += hour }, later: func(m *machine) { m.slept += hour }},
		"slept, of a clock that is wrong": {off: -hour, change: func(m *machine) { m.slept += hour }},
		"slept and set":                   {change: func(m *machine) { m.slept += hour; m.set -= 2 * hour }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{set: tc.off}
				server := serverclock.New(m)
				node := &fakeNode{}
				if tc.away {
					node.err = context.DeadlineExceeded
				}
				e, err := NewFor(datedNode{node, server.Wrap(m)}, Options{
					NodeName: "node-1", Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second,
					Clock: m, ServerClock: server, Rand: func() float64 { return 0.5 }, Registerer: prometheus.NewRegistry(),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				ended := make(chan error, 1)
				go func() { ended <- e.Run(ctx) }()
				defer func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}()
				see := func(status checks.Status) (at string) {
					at = m.server().UTC().Format(`"lastTransitionTime":"2006-01-02T15:04:05Z"`)
					e.Take(&checks.Report{Source: "test", Observations: []checks.Observation{{
						Type: string(runtime), Status: status, Reason: "Reason" + string(status), At: m.Now(),
					}}})
					time.Sleep(time.Minute)
					synctest.Wait()
					return at
				}
				expect := func(what, at string) {
					t.Helper()
					patches := node.taken()
					if len(patches) == 0 {
						t.Errorf("%s is not written", what)
					}
					for _, patch := range patches {
						if !strings.Contains(patch, at) {
							t.Errorf("%s: written %s, want %s", what, patch, at)
						}
					}
				}
				see(checks.False)
				node.taken()
				if tc.change != nil {
					m.change(tc.change)
				}
				began := see(checks.True)
				node.set(func(n *fakeNode) { n.err = nil })
				time.Sleep(time.Minute)
				see(checks.True)
				expect("a problem", began)
				if tc.later != nil {
					m.change(tc.later)
				}
				expect("its end", see(checks.False))
				if reads := node.reads; !tc.away && reads > 4 {
					t.Errorf("the Node was read %d times", reads)
				}
			})
		})
	}
}

func TestAProblemOfALogLastsWhateverTimeItIsFoundToBe(t *testing.T) {
	w := newWorldWith(t, Options{
		Boot: epoch.Add(-time.Hour), Latches: map[corev1.NodeConditionType]Latch{runtime: {}},
	})
	w.node(a(runtime, yes, epoch.Add(-time.Minute), lastWeek))
	w.answered = true
	w.correct(2*time.Hour, false, w.now)
	w.see(runtime, no)
	w.expect(a(runtime, yes, epoch.Add(2*time.Hour), lastWeek))
}
