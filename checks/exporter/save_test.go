package exporter

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/statefile"
)

// The tests of this file write files, so their clock is real.

// runReal starts an exporter that keeps a state file.
func runReal(t *testing.T, node Node, change func(*Options)) (e *Exporter, stop func()) {
	t.Helper()
	options := Options{
		NodeName: "node-1", Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second, BootID: "boot-1",
		Clock: clock.RealClock{}, Rand: func() float64 { return 0.5 }, Registerer: prometheus.NewRegistry(),
	}
	change(&options)
	e, err := NewFor(node, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func observe(e *Exporter, status checks.Status, at time.Time) {
	e.Take(&checks.Report{Source: "test", Observations: []checks.Observation{{
		Type: string(runtime), Status: status, Reason: "Reason" + string(status), At: at,
	}}})
}

func TestTheStateFileHoldsWhatWasSeenEvenIfTheAPIServerIsAway(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "state.json")
	e, stop := runReal(t, &fakeNode{err: context.DeadlineExceeded}, func(o *Options) { o.StateFile = path })
	at := time.Now()
	observe(e, checks.False, at.Add(-time.Minute))
	observe(e, checks.True, at)
	want := []statefile.Condition{{BootID: "boot-1", Type: string(runtime), Status: yes, Reason: "ReasonTrue", LastTransitionTime: at.UTC().Truncate(time.Second)}}
	held := func() []statefile.Condition {
		state, err := statefile.Load(path, "node-1")
		if err != nil {
			return nil
		}
		return state.Conditions
	}
	g.Eventually(held).WithTimeout(10 * time.Second).Should(Equal(want))
	stop()
	if diff := cmp.Diff(want, held()); diff != "" {
		t.Errorf("after the end (-want +got):\n%s", diff)
	}
}

func TestWhatIsSeenLastIsInTheFileAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	e, stop := runReal(t, &fakeNode{}, func(o *Options) { o.StateFile = path })
	observe(e, checks.True, time.Now())
	stop()
	state, err := statefile.Load(path, "node-1")
	if err != nil || len(state.Conditions) != 1 || state.Conditions[0].BootID != "boot-1" {
		t.Errorf("the file holds %+v, %v", state, err)
	}
}

func TestAStateFileThatCanNotBeWrittenIsShownAndNoHindrance(t *testing.T) {
	g := NewWithT(t)
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	node := &fakeNode{}
	e, stop := runReal(t, node, func(o *Options) { o.StateFile = filepath.Join(blocked, "state.json") })
	defer stop()
	observe(e, checks.True, time.Now())
	g.Eventually(node.taken).WithTimeout(10 * time.Second).ShouldNot(BeEmpty())
	g.Eventually(func() float64 { return testutil.ToFloat64(e.metrics.saveFailed) }).WithTimeout(10 * time.Second).Should(Equal(1.0))
	if err := e.Healthy(); err != nil {
		t.Errorf("it makes the exporter unhealthy: %v", err)
	}
}

func TestOfflineNothingIsReadOrWrittenButAllIsKnown(t *testing.T) {
	var told []Change
	e, stop := runReal(t, nil, func(o *Options) {
		o.Offline, o.OnChange = true, func(c Change) { told = append(told, c) }
	})
	observe(e, checks.False, time.Now())
	observe(e, checks.True, time.Now())
	if got := e.Conditions(); len(got) != 1 || got[0].Status != yes {
		t.Errorf("conditions are %v", got)
	}
	NewWithT(t).Eventually(e.Healthy).Should(Succeed())
	stop()
	if len(told) != 2 || !told[0].Confirmed || told[1].Confirmed || told[1].Status != yes {
		t.Errorf("told %+v", told)
	}
}
