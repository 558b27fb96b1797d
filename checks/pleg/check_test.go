package pleg

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
)

const (
	// patient is for runs that must see everything, also on a busy machine.
	patient = 40 * time.Second
	// hasty is for runs that must time out.
	hasty = time.Second
)

// node is a node whose parts can be made to fail.
type node struct {
	metrics, healthz http.HandlerFunc
	probe            func(context.Context) error
	ready            corev1.NodeCondition
	probes, reads    atomic.Int32
}

func healthyNode() *node {
	return &node{
		metrics: serveText(func() string { return pageOf(time.Now(), time.Now().Add(-time.Hour)) }),
		healthz: serveText(func() string { return "ok" }),
		probe:   func(context.Context) error { return nil },
		ready:   readyTrue.condition,
	}
}

func serveText(text func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text())) }
}

// pageOf returns the metrics of a kubelet.
func pageOf(lastSeen, started time.Time) string {
	page := changed("last_seen_seconds 1.7e+09", fmt.Sprintf("last_seen_seconds %d", lastSeen.Unix()))
	return page + fmt.Sprintf("process_start_time_seconds %d\n", started.Unix()) // the last one counts
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// check starts the node's kubelet and returns a check of it.
func (n *node) check(t testing.TB, timeout time.Duration) *Check {
	t.Helper()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		n.metrics(w, r)
	}))
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.healthz(w, r) }))
	t.Cleanup(plain.Close)
	certificate := filepath.Join(t.TempDir(), "kubelet.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(certificate, block, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kubeletapi.New(kubeletapi.Options{
		Endpoint: secure.URL, HealthzEndpoint: plain.URL, CertificateFiles: []string{certificate},
		Credentials: &rest.Config{BearerToken: "secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return newCheck(t, n, client, timeout)
}

func newCheck(t testing.TB, n *node, client *kubeletapi.Client, timeout time.Duration) *Check {
	t.Helper()
	check, err := New(Options{
		Kubelet: client,
		Probe: func(ctx context.Context) error {
			n.probes.Add(1)
			return n.probe(ctx)
		},
		ReadyCondition: func(context.Context) (corev1.NodeCondition, error) {
			n.reads.Add(1)
			return n.ready, nil
		},
		Timeout: timeout, MaxLastSeen: time.Minute, KubeletGrace: 2 * time.Minute, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

func TestAHealthyNodeIsAskedForItsMetricsOnly(t *testing.T) {
	n := healthyNode()
	n.healthz = func(http.ResponseWriter, *http.Request) { t.Error("/healthz was asked for") }
	expect(t, n.check(t, patient).Run(t.Context()), checks.False, ReasonHealthy)
	if n.probes.Load() != 0 || n.reads.Load() != 0 {
		t.Errorf("listed sandboxes %d times, read Ready %d times", n.probes.Load(), n.reads.Load())
	}
}

func TestAStalledRuntimeIsAProblem(t *testing.T) {
	n := healthyNode()
	n.metrics = hang
	n.probe = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	expect(t, n.check(t, hasty).Run(t.Context()), checks.True, ReasonRuntimeStalled)
}

func TestAHangOfTheEndpointAloneIsNoProblem(t *testing.T) {
	n := healthyNode()
	n.metrics = hang
	expect(t, n.check(t, hasty).Run(t.Context()), checks.Unknown, ReasonMetricsTimeout, "Ready=True")
	if n.reads.Load() != 1 {
		t.Errorf("read Ready %d times", n.reads.Load())
	}
}

// So it is if the runtime keeps only the kubelet's own calls waiting.
func TestAHangOfTheEndpointAloneIsAProblemOnceTheKubeletReportsIt(t *testing.T) {
	n := healthyNode()
	answer := n.metrics
	var mended atomic.Bool
	n.metrics = func(w http.ResponseWriter, r *http.Request) {
		if mended.Load() {
			answer(w, r)
			return
		}
		hang(w, r)
	}
	check := n.check(t, 4*hasty)
	check.options.Clock = impatient{} // so that nearly all of it is for the rest
	n.ready = unhealthy.condition
	expect(t, check.Run(t.Context()), checks.True, ReasonReportedByKubelet, "3m7s ago", "/healthz but not /metrics", "answered ListPodSandbox")
	mended.Store(true)
	check.options.Timeout = patient
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy)
}

func TestAKubeletThatAnswersNothingIsNoProblemOfPLEG(t *testing.T) {
	n := healthyNode()
	n.metrics, n.healthz = hang, hang
	n.probe = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	expect(t, n.check(t, hasty).Run(t.Context()), checks.Unknown, ReasonKubeletUnresponsive)
}

func TestALateAnswerCounts(t *testing.T) {
	n := healthyNode()
	answer, late := n.metrics, make(chan struct{})
	n.metrics = func(w http.ResponseWriter, r *http.Request) { <-late; answer(w, r) }
	n.probe = func(context.Context) error { close(late); return nil }
	check := n.check(t, patient)
	check.options.Timeout = patient
	check.options.Clock = impatient{}
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy)
}

// impatient is a clock by which half of the time is over at once.
type impatient struct{ clock.RealClock }

func (impatient) NewTimer(time.Duration) clock.Timer { return clock.RealClock{}.NewTimer(0) }

func TestAnOldGaugeIsAProblemFromTheFirstRunOn(t *testing.T) {
	n := healthyNode()
	n.metrics = serveText(func() string { return pageOf(time.Now().Add(-2*time.Minute), time.Now().Add(-time.Hour)) })
	expect(t, n.check(t, patient).Run(t.Context()), checks.True, ReasonRelistOutdated, "2m", "answered ListPodSandbox")
}

func TestTheSecondRunSeesThatAGaugeIsNotUpdated(t *testing.T) {
	n := healthyNode()
	lastSeen, started := time.Now().Add(-2*time.Minute), time.Now().Add(-time.Hour)
	count := 3563.0
	n.metrics = serveText(func() string {
		count++ // one relist between two runs, a second after the previous one
		return pageOf(lastSeen, started) + fmt.Sprintf(
			"kubelet_pleg_relist_interval_seconds_count %g\nkubelet_pleg_relist_interval_seconds_sum %g\n", count, count)
	})
	check := n.check(t, patient)
	expect(t, check.Run(t.Context()), checks.True, ReasonRelistOutdated)
	expect(t, check.Run(t.Context()), checks.Unknown, ReasonGaugeNotUpdated)
}

func TestARestartedKubeletIsNeitherAProblemNorARecovery(t *testing.T) {
	n := healthyNode()
	n.metrics = serveText(func() string { return pageOf(time.Unix(0, 0), time.Now()) })
	expect(t, n.check(t, patient).Run(t.Context()), checks.Unknown, ReasonKubeletStarting)
}

func TestWhatTheKubeletReportsIsReadWhereMetricsAreNot(t *testing.T) {
	n := healthyNode()
	n.metrics = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Forbidden", http.StatusForbidden) }
	check := n.check(t, patient)
	expect(t, check.Run(t.Context()), checks.Unknown, ReasonNoAccess, "nodes/metrics", "Ready=True")
	n.ready = unhealthy.condition
	expect(t, check.Run(t.Context()), checks.True, ReasonReportedByKubelet, "3m7s ago")
}

func TestPagesThatAreNoMetricsTellNothing(t *testing.T) {
	for text, reason := range map[string]string{
		"<html>":                             ReasonGaugeMissing,
		"kubelet_pleg_last_seen_seconds x\n": ReasonMetricsFailed,
	} {
		n := healthyNode()
		n.metrics = serveText(func() string { return text })
		expect(t, n.check(t, patient).Run(t.Context()), checks.Unknown, reason)
	}
	n := healthyNode()
	n.metrics = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "error gathering metrics", http.StatusInternalServerError)
	}
	expect(t, n.check(t, patient).Run(t.Context()), checks.Unknown, ReasonMetricsFailed, "500")
}

func TestAKubeletThatIsDownIsNoProblemOfPLEG(t *testing.T) {
	client, err := kubeletapi.New(kubeletapi.Options{
		Endpoint: "https://127.0.0.1:1", HealthzEndpoint: "http://127.0.0.1:1", Credentials: &rest.Config{},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := healthyNode()
	n.ready = unhealthy.condition
	expect(t, newCheck(t, n, client, patient).Run(t.Context()), checks.Unknown, ReasonKubeletDown)
}

func TestAnInterruptedRunIsNoVerdict(t *testing.T) {
	n := healthyNode()
	n.metrics = hang
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, n.check(t, patient).Run(ctx), checks.Unknown, ReasonInterrupted)
}

func TestMissingOptionsAreRefused(t *testing.T) {
	client := &kubeletapi.Client{}
	complete := newCheck(t, healthyNode(), client, patient).options
	for name, change := range map[string]func(*Options){
		"no kubelet":     func(o *Options) { o.Kubelet = nil },
		"no probe":       func(o *Options) { o.Probe = nil },
		"no condition":   func(o *Options) { o.ReadyCondition = nil },
		"no clock":       func(o *Options) { o.Clock = nil },
		"no timeout":     func(o *Options) { o.Timeout = 0 },
		"no limit":       func(o *Options) { o.MaxLastSeen = 0 },
		"negative grace": func(o *Options) { o.KubeletGrace = -1 },
	} {
		options := complete
		change(&options)
		if _, err := New(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestProbesThatTimeOutAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		probe func(context.Context) error
		want  bool
	}{
		"an answer":             {func(context.Context) error { return nil }, false},
		"an error":              {func(context.Context) error { return errors.New("refused") }, false},
		"a deadline":            {func(ctx context.Context) error { <-ctx.Done(); return errors.New("whatever") }, true},
		"a deadline of its own": {func(context.Context) error { return fmt.Errorf("listing: %w", context.DeadlineExceeded) }, true},
		"a deadline of gRPC": {func(context.Context) error {
			return fmt.Errorf("listing: %w", grpcstatus.Error(codes.DeadlineExceeded, "late"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := healthyNode()
			n.probe = tc.probe
			ctx, cancel := context.WithTimeout(t.Context(), hasty/10)
			defer cancel()
			if got := newCheck(t, n, &kubeletapi.Client{}, patient).listSandboxes(ctx); got.timedOut != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func BenchmarkRun(b *testing.B) {
	n := healthyNode()
	page := string(large()) + pageOf(time.Now().Add(time.Second), time.Now().Add(-time.Hour))
	n.metrics = serveText(func() string { return page })
	check := n.check(b, patient)
	b.ReportAllocs()
	for b.Loop() {
		if result := check.Run(b.Context()); result.Reason == ReasonMetricsFailed {
			b.Fatal(result)
		}
	}
}

// A panic of a goroutine that nobody guards ends the whole detector.
func TestAPanicOfWhatItAsksIsOneOfTheCheck(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration
		breaks  func(*Check)
	}{
		"the probe": {hasty, func(c *Check) {
			c.options.Probe = func(context.Context) error { panic("no such mode") } //nolint:forbidigo // as a library does
		}},
		"the metrics": {patient, func(c *Check) { c.options.Kubelet = nil }}, // whose methods then panic
	} {
		t.Run(name, func(t *testing.T) {
			n := healthyNode()
			n.metrics = hang
			c := n.check(t, test.timeout)
			test.breaks(c)
			if got := checks.Guarded(t.Context(), Kind(), c); got.Status != checks.Unknown || got.Reason != checks.ReasonCheckPanicked {
				t.Errorf("got %+v", got)
			}
		})
	}
}
