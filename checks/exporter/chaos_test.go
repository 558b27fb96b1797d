package exporter

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/statefile"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// liveNode keeps what is written. While it is absent or away, requests fail.
type liveNode struct {
	*machine
	mu           sync.Mutex
	absent, away bool
	uid          int
	condition    *corev1.NodeCondition
	clock        *serverclock.Clock
}

func (n *liveNode) answered() error {
	var away bool
	n.become(func() { away = n.away })
	if away {
		return context.DeadlineExceeded
	}
	response, err := n.clock.Wrap(n.machine).RoundTrip(nil)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

func (n *liveNode) become(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what()
}

// known is the condition.
func (n *liveNode) known() (condition *corev1.NodeCondition) {
	n.become(func() { condition = n.condition })
	return condition
}

func (n *liveNode) Get(context.Context) (*corev1.Node, error) {
	err := n.answered()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || n.absent {
		return nil, notFound(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: apitypes.UID(fmt.Sprint(n.uid))}}
	if n.condition != nil {
		node.Status.Conditions = []corev1.NodeCondition{*n.condition}
	}
	return node, nil
}

func (n *liveNode) PatchStatus(_ context.Context, data []byte) error {
	var patch corev1.Node
	if err := json.Unmarshal(data, &patch); err != nil {
		return err
	}
	err := n.answered()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || n.absent || string(patch.UID) != fmt.Sprint(n.uid) {
		return notFound(err)
	}
	n.condition = &patch.Status.Conditions[0]
	return nil
}

// TestTransitionsAreTrueThroughRestartsClocksAndOutages lets much happen by chance to
// a detector whose check runs every ten seconds, and asks at the end of each calm
// whether the Node says since when it is as it is.
func TestTransitionsAreTrueThroughRestartsClocksAndOutages(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func chaos(t *testing.T, random *rand.Rand) {
	m := &machine{set: time.Duration(random.IntN(3)-1) * time.Hour}
	node := &liveNode{machine: m, absent: random.IntN(2) == 0, uid: 1}
	var e *Exporter
	var state statefile.State
	end := func() {}
	start := func() {
		if e != nil { // as if every change came to the disk
			e.mu.Lock()
			uid := e.state.uid
			if uid == "" {
				uid = e.state.fileUID
			}
			state = statefile.State{NodeUID: uid, Conditions: e.state.snapshot()}
			e.mu.Unlock()
		}
		end()
		node.clock = serverclock.New(m)
		jitter := random.Float64()
		var err error
		e, err = NewFor(node, Options{
			NodeName: "node-1", Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second, Restored: state, BootID: "boot",
			Clock: m, ServerClock: node.clock, Rand: func() float64 { return jitter }, Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		end = func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	start()
	defer func() { end() }() //nolint:gocritic // each restart has another end
	is, since := corev1.ConditionFalse, time.Time{}
	look := func() {
		if since.IsZero() {
			since = m.server()
		}
		e.Take(&checks.Report{Source: "test", Observations: []checks.Observation{{Type: string(runtime), Status: checks.Status(is), Reason: "Reason", At: m.Now()}}})
	}
	known := func() bool {
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.state.answered && !e.state.doubtful
	}
	var happened []string
	events := []struct {
		what string
		do   func()
	}{
		{"the status changes", func() {
			is = map[corev1.ConditionStatus]corev1.ConditionStatus{yes: no, no: yes}[is]
			since = m.server()
		}},
		{"a restart", func() {
			if !known() { // a clock that is wrong, and nobody knows it, is believed
				return
			}
			time.Sleep(2 * time.Second) // which of two in one second is the later is not told
			start()
			if c := node.known(); node.away && c != nil && c.Status == is { // so is the Node's time for the same status
				since = c.LastTransitionTime.Time
			}
		}},
		{"the clock is set", func() {
			m.change(func(m *machine) { m.set = time.Duration(random.IntN(5)-2) * time.Hour / 2 })
		}},
		{"the machine sleeps", func() {
			if !known() { // it could as well have been set right
				return
			}
			m.change(func(m *machine) { m.slept += time.Duration(random.IntN(60)+1)*time.Minute + 13*time.Second })
		}},
		{"the API server is away", func() { node.become(func() { node.away = true }) }},
		{"the Node is there", func() { node.become(func() { node.absent = false }) }},
		{"the Node is created anew", func() { // the detector notices before its end
			if !node.absent && !node.away && node.known() != nil {
				node.become(func() { node.uid, node.condition = node.uid+1, nil })
				time.Sleep(10 * time.Minute)
				look()
				time.Sleep(10 * time.Minute)
				look()
			}
		}},
	}
	look()
	for range 40 {
		for range random.IntN(3) {
			event := events[random.IntN(len(events))]
			happened = append(happened, event.what)
			time.Sleep(time.Millisecond)
			event.do()
			time.Sleep(time.Millisecond)
			if event.what == "the status changes" || random.IntN(2) == 0 {
				look()
			}
			time.Sleep(time.Duration(random.IntN(20)) * time.Second)
		}
		if random.IntN(4) > 0 {
			continue
		}
		node.become(func() { node.away, node.absent = false, false })
		for range 12 {
			look()
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		c := node.known()
		if c == nil || c.Status != is {
			t.Fatalf("the Node has %v, want %s; happened: %q", c, is, happened)
		}
		if off := c.LastTransitionTime.Sub(since); off.Abs() > 5*time.Second {
			t.Fatalf("%s since %s, off by %s; happened: %q", is, c.LastTransitionTime, off, happened)
		}
		if age := m.server().Sub(c.LastHeartbeatTime.Time); age < 0 || age > time.Minute && is == yes {
			t.Fatalf("the heartbeat is %s old; happened: %q", age, happened)
		}
	}
}

func notFound(err error) error {
	if err != nil {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "node-1")
}
