package npd_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/npd"
)

type checkFunc func() checks.Result

func (checkFunc) Timeout() time.Duration              { return 5 * time.Second }
func (f checkFunc) Run(context.Context) checks.Result { return f() }

func newMonitor(t *testing.T, check checkFunc) *checks.Monitor {
	t.Helper()
	metrics, err := checks.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return checks.NewMonitor(checks.Kind{Name: "sample"}, check, checks.MonitorOptions{
		Interval: 10 * time.Second, Rand: func() float64 { return 0 }, Clock: clock.RealClock{}, Metrics: metrics,
	})
}

func TestAHangingCheckDelaysNeitherOthersNorShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reports := map[string]int{}
		hanging := newMonitor(t, func() checks.Result { time.Sleep(time.Hour); return checks.Result{} })
		working := newMonitor(t, func() checks.Result { return checks.Healthy("Fine", "") })
		ended := make(chan error, 1)
		go func() {
			ended <- npd.Run(ctx, []npd.Monitor{hanging, working}, func(r *checks.Report) { reports[r.Observations[0].Reason]++ })
		}()

		time.Sleep(time.Minute)
		synctest.Wait()
		if reports["Fine"] != 7 || reports[checks.ReasonCheckTimeout] != 1 {
			t.Errorf("in a minute came %v, want 7 Fine and 1 %s", reports, checks.ReasonCheckTimeout)
		}
		cancel()
		stopped := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(stopped); took > checks.Grace {
			t.Errorf("shutdown took %s, want at most %s", took, checks.Grace)
		}
		time.Sleep(time.Hour) // the abandoned run ends
	})
}

type monitorFunc func(ctx context.Context, send checks.Send) error

func (f monitorFunc) Run(ctx context.Context, send checks.Send) error { return f(ctx, send) }

func TestAReportReachesAllWhoTakeReportsAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		want := &checks.Report{
			Source: "sample",
			Observations: []checks.Observation{
				{Type: "A", Status: checks.True, At: at, Reason: "Broken", Message: "it is broken"},
				{Type: "B", Status: checks.Unknown, At: at.Add(time.Second), Reason: "Lost", Message: "nobody knows"},
				{Type: "C", Status: checks.False, At: at.Add(time.Hour), Reason: "Fine", Message: "all well"},
			},
			Events: []checks.Event{{At: at.Add(-time.Second), Reason: "Oops", Message: "it happened"}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended, stopped := make(chan error, 1), make(chan bool, 1)
		monitor := monitorFunc(func(ctx context.Context, send checks.Send) error {
			if !send(want) {
				t.Error("the report is not taken")
			}
			<-ctx.Done()
			stopped <- send(want)
			return nil
		})
		fails := monitorFunc(func(context.Context, checks.Send) error { return errors.New("it can't begin") })
		var got, alike []*checks.Report
		go func() {
			ended <- npd.Run(ctx, []npd.Monitor{monitor, fails},
				func(r *checks.Report) { got = append(got, r) }, func(r *checks.Report) { alike = append(alike, r) })
		}()
		synctest.Wait()
		if diff := cmp.Diff([]*checks.Report{want, want}, append(got, alike...)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if <-stopped {
			t.Error("a report is taken after the end")
		}
	})
}
