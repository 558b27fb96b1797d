package exporter

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/repairnote"
)

// The tests run in a synctest bubble: the real clock is a fake one there.

// fakeNode answers reads and records patches; it fails while err is set and
// hangs while hang is set.
type fakeNode struct {
	mu         sync.Mutex
	err        error
	hang       bool
	stuck      chan struct{} // reads ignore their deadline until it is closed
	conditions []corev1.NodeCondition
	annotated  map[string]string
	patches    []string
	requests   int
	reads      int
}

func (n *fakeNode) set(change func(*fakeNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *fakeNode) answer(ctx context.Context) error {
	n.mu.Lock()
	n.requests++
	hang, err := n.hang, n.err
	n.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (n *fakeNode) Get(ctx context.Context) (*corev1.Node, error) {
	n.set(func(n *fakeNode) { n.reads++ })
	if n.stuck != nil {
		<-n.stuck
	}
	if err := n.answer(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: n.conditions}}
	node.UID, node.Annotations = "uid-1", n.annotated
	return node, nil
}

func (n *fakeNode) PatchStatus(ctx context.Context, data []byte) error {
	if err := n.answer(ctx); err != nil {
		return err
	}
	n.set(func(n *fakeNode) { n.patches = append(n.patches, string(data)) })
	return nil
}

// taken returns the patches since the last call.
func (n *fakeNode) taken() (patches []string) {
	n.set(func(n *fakeNode) { patches, n.patches = n.patches, nil })
	return patches
}

// run starts an exporter. It has stopped when the returned function returns.
func run(t *testing.T, node Node) (*Exporter, *prometheus.Registry, func()) {
	t.Helper()
	registry := prometheus.NewRegistry()
	e, err := NewFor(node, Options{
		NodeName: "node-1", Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second,
		Clock: clock.RealClock{}, Rand: func() float64 { return 0.5 }, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	synctest.Wait()
	return e, registry, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func report(e *Exporter, status checks.Status) {
	e.Take(&checks.Report{Source: "test", Observations: []checks.Observation{{
		Type: string(runtime), Status: status, Reason: "Reason" + string(status), Message: "seen", At: time.Now(),
	}}})
	synctest.Wait()
}

func TestAPatchHoldsItsConditionsTheUIDAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		e, registry, stop := run(t, node)
		defer stop()
		if got := node.taken(); got != nil {
			t.Errorf("before any report, written %v", got)
		}
		report(e, checks.True)
		want := map[string]any{
			"metadata": map[string]any{"uid": "uid-1"},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": string(runtime), "status": "True", "reason": "ReasonTrue", "message": "seen",
				"lastHeartbeatTime": "2000-01-01T00:00:00Z", "lastTransitionTime": "2000-01-01T00:00:00Z",
			}}},
		}
		patches := node.taken()
		if len(patches) != 1 {
			t.Fatalf("written %v, want one patch", patches)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(patches[0]), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("patch (-want +got):\n%s", diff)
		}
		metric := `
			# HELP nodemend_detector_requests_total Requests to the API server by verb (get, patch) and by result: success, or the reason of the failure.
			# TYPE nodemend_detector_requests_total counter
			nodemend_detector_requests_total{result="success",verb="get"} 1
			nodemend_detector_requests_total{result="success",verb="patch"} 1
		`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(metric), "nodemend_detector_requests_total"); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatATechnicianHasToKnowIsWrittenWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		e, _, stop := run(t, node)
		defer stop()
		lines := []string{"server: serial ABC1234", "slot A1: serial 4711"}
		e.Take(&checks.Report{Source: "test", Observations: []checks.Observation{{
			Type: string(runtime), Status: checks.True, Reason: "R", Message: repairnote.Join(strings.Repeat("x", 5000), lines), At: time.Now(),
		}}})
		synctest.Wait()
		conditions := e.Conditions()
		if len(conditions) != 1 {
			t.Fatalf("got %+v", conditions)
		}
		if said, got := repairnote.Split(conditions[0].Message); len(said) != maxMessage || !slices.Equal(got, lines) {
			t.Errorf("%d bytes for everybody, and %q", len(said), got)
		}
	})
}

func TestHeartbeatsAreWrittenWithoutAnEventThatWakesTheExporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		e, _, stop := run(t, node)
		defer stop()
		report(e, checks.True)
		time.Sleep(time.Second)
		report(e, checks.True)
		node.taken()
		time.Sleep(28 * time.Second)
		synctest.Wait()
		if got := node.taken(); got != nil {
			t.Errorf("before the heartbeat is due, written %v", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := node.taken(); len(got) != 1 {
			t.Errorf("at the heartbeat, written %v, want one patch", got)
		}
	})
}

func TestTakeDoesNotWaitForTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{hang: true}
		e, _, stop := run(t, node)
		defer stop()
		began := time.Now()
		for range 100 {
			report(e, checks.True)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("100 reports took %s", took)
		}
		node.set(func(n *fakeNode) { n.hang = false })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := node.taken(); len(got) != 1 {
			t.Errorf("when the API server answers again, written %v, want one patch", got)
		}
	})
}

func TestRequestsAreRetriedSlowlyForWhateverReason(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		err error
		// readAgain is whether the Node may be another one afterwards.
		readAgain bool
	}{
		"unreachable": {context.DeadlineExceeded, false},
		"not found":   {apierrors.NewNotFound(nodes, "node-1"), true},
		"forbidden":   {apierrors.NewForbidden(nodes, "node-1", nil), false},
		"recreated":   {apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "node-1", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := &fakeNode{}
				e, _, stop := run(t, node)
				defer stop()
				report(e, checks.False)
				node.taken()
				node.set(func(n *fakeNode) { n.err, n.requests, n.reads = tc.err, 0, 0 })
				time.Sleep(time.Second)
				report(e, checks.True)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if node.requests < 20 || node.requests > 35 {
					t.Errorf("%d requests in ten minutes, want about one in 22 s", node.requests)
				}
				if err := e.Healthy(); err != nil {
					t.Errorf("an API server that fails makes the exporter unhealthy: %v", err)
				}
				node.set(func(n *fakeNode) { n.err = nil })
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if got := node.taken(); len(got) != 1 || !strings.Contains(got[0], `"lastTransitionTime":"2000-01-01T00:00:01Z"`) {
					t.Errorf("written %v, want the change with the time it was observed", got)
				}
				if node.reads > 0 != tc.readAgain {
					t.Errorf("the node was read %d times after the failure; want any: %t", node.reads, tc.readAgain)
				}
			})
		})
	}
}

func TestHealthyTellsOfARequestThatIgnoresItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{stuck: make(chan struct{})}
		e, _, stop := run(t, node)
		report(e, checks.True)
		if err := e.Healthy(); err != nil {
			t.Errorf("at the begin of a request: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if e.Healthy() == nil {
			t.Error("a request that hangs for two minutes is healthy")
		}
		close(node.stuck)
		time.Sleep(time.Hour)
		if err := e.Healthy(); err != nil {
			t.Errorf("with nothing to do: %v", err)
		}
		stop()
		if e.Healthy() == nil {
			t.Error("an exporter that has stopped is healthy")
		}
	})
}
