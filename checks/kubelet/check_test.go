package kubelet

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

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
	plain, secure http.HandlerFunc
	unit          unit
	unitErr       error
	hangs         bool // D-Bus
	asked         []string
}

func (n *node) first(ctx context.Context, names []string) (unit, error) {
	n.asked = names
	if n.hangs {
		<-ctx.Done()
		return unit{}, ctx.Err()
	}
	return n.unit, n.unitErr
}

func healthyNode() *node {
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }
	return &node{plain: ok, secure: ok, unit: unit{name: "kubelet.service", activeState: "active", subState: "running"}}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// check starts the node's kubelet and returns a check of it.
func (n *node) check(t testing.TB, timeout time.Duration) (*Check, *clocktesting.FakeClock) {
	t.Helper()
	onlyHealthz := func(handler *http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				http.NotFound(w, r)
				return
			}
			(*handler)(w, r)
		})
	}
	secure, plain := httptest.NewTLSServer(onlyHealthz(&n.secure)), httptest.NewServer(onlyHealthz(&n.plain))
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	certificate := filepath.Join(t.TempDir(), "kubelet.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(certificate, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return n.checkAt(t, kubeletapi.Options{
		Endpoint: secure.URL, HealthzEndpoint: plain.URL, CertificateFiles: []string{certificate},
	}, timeout)
}

func (n *node) checkAt(t testing.TB, options kubeletapi.Options, timeout time.Duration) (*Check, *clocktesting.FakeClock) {
	t.Helper()
	options.Credentials = &rest.Config{BearerToken: "secret"}
	client, err := kubeletapi.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	check, err := New(Options{Kubelet: client, Timeout: timeout, MaxRestarts: 2, RestartWindow: window, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	check.systemd = n
	return check, clock
}

func TestAHealthyKubeletIsHealthy(t *testing.T) {
	n := healthyNode()
	check, _ := n.check(t, patient)
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy, "200 ok", "sync loop turns", "active (running)")
	if !slices.Equal(n.asked, []string{"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"}) {
		t.Errorf("looked for the units %v", n.asked)
	}
}

func TestAKubeletThatHangsIsAProblem(t *testing.T) {
	n := healthyNode()
	n.plain, n.secure = hang, hang
	check, _ := n.check(t, hasty)
	expect(t, check.Run(t.Context()), checks.True, ReasonHealthzTimeout)
}

func TestAKubeletThatIsDownIsAProblem(t *testing.T) {
	n := healthyNode()
	n.unit.activeState, n.unit.subState = "inactive", "dead"
	check, _ := n.checkAt(t, kubeletapi.Options{Endpoint: "https://127.0.0.1:1", HealthzEndpoint: "http://127.0.0.1:1"}, patient)
	expect(t, check.Run(t.Context()), checks.True, ReasonConnectionRefused, "inactive (dead)")
}

func TestAConnectionThatIsDroppedIsAProblem(t *testing.T) {
	n := healthyNode()
	n.plain = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) } //nolint:forbidigo // how net/http drops a connection
	check, _ := n.check(t, patient)
	expect(t, check.Run(t.Context()), checks.True, ReasonConnectionLost)
}

func TestAFailingSyncLoopIsAProblemUntilItIsSeenToTurn(t *testing.T) {
	n := healthyNode()
	works := n.secure
	check, _ := n.check(t, patient)
	n.secure = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed", http.StatusInternalServerError)
	}
	expect(t, check.Run(t.Context()), checks.True, ReasonSyncLoopFailed, "syncloop")
	n.secure = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Unauthorized", http.StatusUnauthorized) }
	expect(t, check.Run(t.Context()), checks.Unknown, ReasonSyncLoopNotSeen, "401")
	n.secure = works
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy)
}

func TestNoAccessToTheSyncLoopIsNoProblem(t *testing.T) {
	n := healthyNode()
	n.secure = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Forbidden", http.StatusForbidden) }
	check, _ := n.check(t, patient)
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy, "nodes/healthz")
}

func TestADBusThatHangsIsNoProblem(t *testing.T) {
	n := healthyNode()
	n.hangs = true
	check, _ := n.check(t, 3*hasty)
	begun := time.Now()
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy, "not seen")
	if took := time.Since(begun); took >= check.Timeout() {
		t.Errorf("took %s: a healthy verdict after the timeout of %s is discarded", took, check.Timeout())
	}
}

func TestAKubeletThatKeepsRestartingIsAProblemUntilTheWindowHasPassed(t *testing.T) {
	n := healthyNode()
	n.unit.restarts = 7
	check, clock := n.check(t, patient)
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy)
	for range 2 {
		clock.Step(10 * time.Second)
		n.unit.restarts++
		expect(t, check.Run(t.Context()), checks.False, ReasonHealthy)
	}
	clock.Step(10 * time.Second)
	n.unit.restarts++
	expect(t, check.Run(t.Context()), checks.True, ReasonRestarting)
	clock.Step(window - 20*time.Second)
	expect(t, check.Run(t.Context()), checks.True, ReasonRestarting)
	n.unitErr = errors.New("no D-Bus")
	expect(t, check.Run(t.Context()), checks.Unknown, ReasonUnitNotSeen)
	n.unitErr = nil
	clock.Step(time.Second)
	expect(t, check.Run(t.Context()), checks.False, ReasonHealthy)
}

func TestAnInterruptedRunIsNoVerdict(t *testing.T) {
	n := healthyNode()
	n.plain = hang
	check, _ := n.check(t, patient)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, check.Run(ctx), checks.Unknown, ReasonInterrupted)
}

func TestAnotherUnitCanBeNamed(t *testing.T) {
	n := healthyNode()
	named, _ := n.check(t, patient)
	options := named.options
	options.Unit = "my-kubelet.service"
	check, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	check.systemd = n
	check.Run(t.Context())
	if !slices.Equal(n.asked, []string{"my-kubelet.service"}) {
		t.Errorf("looked for the units %v", n.asked)
	}
}

func TestMissingOptionsAreRefused(t *testing.T) {
	check, _ := healthyNode().check(t, patient)
	for name, change := range map[string]func(*Options){
		"no kubelet":            func(o *Options) { o.Kubelet = nil },
		"no clock":              func(o *Options) { o.Clock = nil },
		"no timeout":            func(o *Options) { o.Timeout = 0 },
		"no window":             func(o *Options) { o.RestartWindow = 0 },
		"less than no restarts": func(o *Options) { o.MaxRestarts = -1 },
	} {
		options := check.options
		change(&options)
		if _, err := New(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	check, _ := healthyNode().check(b, patient)
	b.ReportAllocs()
	for b.Loop() {
		if result := check.Run(b.Context()); result.Status != checks.False {
			b.Fatal(result)
		}
	}
}

// A panic of a goroutine that nobody guards ends the whole detector.
func TestAPanicOfSystemdsAnswerIsOneOfTheCheck(t *testing.T) {
	n := healthyNode()
	c, _ := n.check(t, patient)
	c.systemd = bad{}
	if got := checks.Guarded(t.Context(), Kind(), c); got.Status != checks.Unknown || got.Reason != checks.ReasonCheckPanicked {
		t.Errorf("got %+v", got)
	}
}

// bad is a systemd whose answer is not understood.
type bad struct{}

func (bad) first(context.Context, []string) (unit, error) { panic("no such mode") } //nolint:forbidigo // as a library does
