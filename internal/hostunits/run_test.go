package hostunits

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
)

// kept is an installer that runs.
type kept struct {
	health health
	stop   func() error

	mu    sync.Mutex
	lines []string // of its log
}

func (k *kept) log(_, line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, line)
}

// keep starts an installer in the bubble; it has settled when keep returns.
func (h *host) keep(id string) *kept {
	h.t.Helper()
	k, ended := &kept{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(logr.NewContext(h.t.Context(), funcr.New(k.log, funcr.Options{})))
	i := h.installer()
	go func() { ended <- i.keep(ctx, claim{path: i.here.claim, id: types.UID(id)}, &k.health) }()
	k.stop = func() error { cancel(); return <-ended }
	pass(settleLooks * settleInterval)
	return k
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (k *kept) logged(text string) (lines int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		if strings.Contains(line, text) {
			lines++
		}
	}
	return lines
}

func TestARenewedTokenIsOnTheHostWithinTheIntervalAndLoggedOnce(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		k := h.keep("1")
		if err := k.health.ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		h.systemd.took()
		h.renew("token-2", "ca-1")
		pass(interval)
		if got := h.read("/var/lib/nodemend/runner.token"); got != "token-2" {
			t.Errorf("the token is %q", got)
		}
		pass(10 * interval)
		if got := h.systemd.took(); got != "" {
			t.Errorf("systemd was asked to %s", got)
		}
		if n := k.logged("runner.token"); n != 2 { // the first, and this
			t.Errorf("logged %d times: %q", n, k.lines)
		}
		if err := k.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnEndedInstallerLeavesTheUnitAsItIs(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		k := h.keep("1")
		h.systemd.took()
		if err := k.stop(); err != nil {
			t.Error(err)
		}
		if got := h.systemd.took(); got != "" || h.systemd.active != "active" {
			t.Errorf("systemd was asked to %s, the unit is %q", got, h.systemd.active)
		}
		if names := h.names(); len(names) != 6 { // without the claim
			t.Errorf("left are %q", names)
		}
	})
}

func TestAFirstInstallationThatFailsIsAnError(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.systemd.fail(errors.New("systemd does not answer"))
		if err := h.keep("1").stop(); err == nil || err.Error() != "installing nodemend-runner.service on this host: systemd does not answer" {
			t.Errorf("got %v", err)
		}
	})
}

func TestALaterFailureIsLoggedOnceShownAndTriedAgain(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		k := h.keep("1")
		h.systemd.fail(errors.New("systemd does not answer"))
		h.renew("token-2", "ca-1")
		pass(5 * interval)
		if n := k.logged("systemd does not answer"); n != 1 {
			t.Errorf("logged %d times: %q", n, k.lines)
		}
		if err := k.health.ready(); err == nil || err.Error() != "systemd does not answer" {
			t.Errorf("ready: %v", err)
		}
		if got := h.read("/var/lib/nodemend/runner.token"); got != "token-2" {
			t.Errorf("the token is %q", got)
		}
		h.systemd.fail(nil)
		pass(interval)
		if err := k.health.ready(); err != nil || k.logged("as it should be again") != 1 {
			t.Errorf("ready: %v, logged %q", err, k.lines)
		}
		if err := k.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestOfTwoInstallersTheLaterOneWorksAndTheEarlierOneTakesOverFromIt(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		first := h.keep("1")
		pod2 := *h
		pod2.options.Credentials = t.TempDir()
		pod2.renew("token of the second", "ca-1")
		second := pod2.keep("2")
		h.renew("token of the first", "ca-1")
		pass(claimAge + 2*interval)
		if got := h.read("/var/lib/nodemend/runner.token"); got != "token of the second" {
			t.Errorf("the token is the %q", got)
		}
		if err := first.health.ready(); !errors.Is(err, errSuperseded) || first.logged("newer installer") != 1 {
			t.Errorf("the first is ready: %v, logged %q", err, first.lines)
		}
		if err := second.health.ready(); err != nil {
			t.Errorf("the second is not ready: %v", err)
		}
		if err := second.stop(); err != nil {
			t.Error(err)
		}
		pass(interval)
		if got := h.read("/var/lib/nodemend/runner.token"); got != "token of the first" || first.health.ready() != nil {
			t.Errorf("then the token is the %q, ready: %v", got, first.health.ready())
		}
		if err := first.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAClaimOfAnInstallerThatWasKilledGetsTooOld(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		k := h.keep("1")
		killed := claim{path: h.path("/run/nodemend/host-units-runner.claim"), id: "killed"}
		if err := killed.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(claimAge - interval)
		if err := k.health.ready(); !errors.Is(err, errSuperseded) {
			t.Errorf("ready: %v", err)
		}
		pass(2 * interval)
		if err := k.health.ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		if err := k.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestABrokenClaimClaimsNothing(t *testing.T) {
	c := claim{path: t.TempDir() + "/claim", id: "ours"}
	for _, content := range []string{"", "{", `{"id":"other","renewed":"2200-01-01T00:00:00Z"}`} {
		if err := os.WriteFile(c.path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if ours, err := c.renew(t.Context()); err != nil || !ours {
			t.Errorf("%q: ours %t, %v", content, ours, err)
		}
	}
}

// The installer that reads and writes a claim has it alone.
func TestTheEarlierInstallerUndoesNoClaimThatIsTakenInThatMoment(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(ctx context.Context, earlier claim) (ours bool, err error)
		ours bool
		want types.UID
	}{
		"renew":   {func(ctx context.Context, c claim) (bool, error) { return c.renew(ctx) }, false, "later"},
		"release": {func(ctx context.Context, c claim) (bool, error) { return false, c.release(ctx) }, false, "later"},
		"take":    {func(ctx context.Context, c claim) (bool, error) { return true, c.take(ctx) }, true, "earlier"}, // it is the latest then
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := t.TempDir() + "/claim"
				earlier, later := claim{path: path, id: "earlier"}, claim{path: path, id: "later"}
				if err := earlier.take(t.Context()); err != nil {
					t.Fatal(err)
				}
				type end struct {
					ours bool
					err  error
				}
				ended := make(chan end, 1)
				err := later.locked(t.Context(), 0, func(f *os.File) error {
					go func() {
						ours, err := test.do(t.Context(), earlier)
						ended <- end{ours, err}
					}()
					synctest.Wait() // it has read what it can
					return later.write(f)
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := <-ended; got.err != nil || got.ours != test.ours {
					t.Errorf("ours %t, %v, want %t", got.ours, got.err, test.ours)
				}
				if got, err := later.holder(t.Context()); err != nil || got != test.want {
					t.Errorf("the claim is of %q, %v, want %q", got, err, test.want)
				}
			})
		})
	}
}

func TestAClaimThatIsReleasedInThatMomentIsTakenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/claim"
		earlier, later := claim{path: path, id: "earlier"}, claim{path: path, id: "later"}
		if err := earlier.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		err := earlier.locked(t.Context(), 0, func(*os.File) error {
			go func() { ended <- later.take(t.Context()) }()
			synctest.Wait()
			return os.Remove(path)
		})
		if err := errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
		if got, err := later.holder(t.Context()); err != nil || got != "later" {
			t.Errorf("the claim is of %q, %v", got, err)
		}
	})
}

func TestAFrozenInstallerIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/claim"
		frozen, later := claim{path: path, id: "frozen"}, claim{path: path, id: "later"}
		err := frozen.locked(t.Context(), os.O_CREATE, func(*os.File) error {
			if err := later.take(t.Context()); err == nil || !strings.Contains(err.Error(), "frozen?") {
				t.Errorf("got %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := later.take(t.Context()); err != nil { // it was killed
			t.Error(err)
		}
	})
}

func TestReadinessTellsWhatIsWrong(t *testing.T) {
	day := credentials{renewed: time.Now(), lifetime: 24 * time.Hour}
	old := credentials{renewed: time.Now().Add(-25 * time.Hour), lifetime: 24 * time.Hour}
	for name, test := range map[string]struct {
		set        func(h *health)
		wantStatus int
		wantBody   string
	}{
		"before":        {func(*health) {}, 503, "not installed yet"},
		"well":          {func(h *health) { h.set(day, nil) }, 200, "ok"},
		"failed":        {func(h *health) { h.set(day, errors.New("disk full")) }, 503, "disk full"},
		"old token":     {func(h *health) { h.set(old, nil) }, 503, "25h0m0s old and was valid for 24h0m0s"},
		"unknown token": {func(h *health) { h.set(credentials{}, nil) }, 200, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			var h health
			test.set(&h)
			for path, want := range map[string]int{"/readyz": test.wantStatus, "/healthz": 200} {
				response := httptest.NewRecorder()
				h.handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
				if response.Code != want {
					t.Errorf("%s: %d %s, want %d", path, response.Code, response.Body, want)
				}
				if path == "/readyz" && !strings.Contains(response.Body.String(), test.wantBody) {
					t.Errorf("got %q, want %q", response.Body, test.wantBody)
				}
			}
		})
	}
}

func TestHealthIsServedWhileItRuns(t *testing.T) {
	h := newHost(t)
	h.options.HealthAddress = "127.0.0.1:-1"
	if err := Run(t.Context(), h.options); err == nil || !strings.Contains(err.Error(), "--health-address") {
		t.Errorf("got %v", err)
	}
}

func TestWrongOptionsAreRefusedBeforeAnythingIsDone(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(o *Options)
		want  string
	}{
		"role":        {func(o *Options) { o.Role = "controller" }, `unknown role "controller"; accepted are runner and detector`},
		"host root":   {func(o *Options) { o.HostRoot = "host" }, "for example /host"},
		"program":     {func(o *Options) { o.BinDir = "opt/bin" }, "the default is /opt/nodemend/bin"},
		"odd program": {func(o *Options) { o.BinDir = "/opt/a b" }, "letters, digits"},
		"node":        {func(o *Options) { o.NodeName = "" }, "kubectl get nodes"},
		"server":      {func(o *Options) { o.Server = "10.0.0.1:6443" }, "https://HOST:PORT"},
		"no server":   {func(o *Options) { o.Server = "" }, "https://HOST:PORT"},
		"http":        {func(o *Options) { o.Server = "http://10.0.0.1" }, "https://HOST:PORT"},
		"zero byte":   {func(o *Options) { o.Args = []string{"a\x00b"} }, "zero bytes"},
		"no UTF-8":    {func(o *Options) { o.Args = []string{"a\xff"} }, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			test.spoil(&h.options)
			if err := Run(t.Context(), h.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if names := h.names(); len(names) > 0 {
				t.Errorf("made %q", names)
			}
		})
	}
}

func TestRemoveLeavesNothingOfItsRole(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.options.Role = Detector
		h.install()
		detector := h.names()
		h.options.Role, h.options.BinDir = Runner, "/srv/bin"
		h.systemd.enabled, h.systemd.loaded, h.systemd.active = false, false, ""
		h.install()
		h.systemd.took()
		h.put(h.path("/srv/bin/.nodemend-runner.123"), "of an installer that was killed")
		h.options.BinDir = DefaultBinDir // forgotten
		done, err := Remove(t.Context(), h.options)
		if err != nil {
			t.Fatal(err)
		}
		if names := h.names(); !slices.Equal(names, detector) {
			t.Errorf("left are\n%q, want\n%q", names, detector)
		}
		if got := h.systemd.took(); got != "stop nodemend-runner.service, forget nodemend-runner.service" {
			t.Errorf("systemd was asked to %s", got)
		}
		for _, want := range []string{"stopped nodemend-runner.service", "removed " + h.path("/srv/bin/nodemend-runner")} {
			if !slices.Contains(done, want) {
				t.Errorf("done is %q, want %q", done, want)
			}
		}
		if done, err := Remove(t.Context(), h.options); err != nil || len(done) > 0 {
			t.Errorf("a second time: %q, %v", done, err)
		}
	})
}

func TestRemoveTakesAwayItsEmptyDirectoriesOnly(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		h.install()
		h.put(h.path("/etc/nodemend/runner.yaml"), "somebody's")
		if _, err := Remove(t.Context(), h.options); err != nil {
			t.Fatal(err)
		}
		if names := h.names(); !slices.Equal(names, []string{"/etc/nodemend/runner.yaml"}) {
			t.Errorf("left are %q", names)
		}
		for _, gone := range []string{"/opt/nodemend", "/var/lib/nodemend"} {
			if _, err := os.Lstat(h.path(gone)); err == nil {
				t.Errorf("%s is left", gone)
			}
		}
	})
}

func TestRemoveFinishesWhatIsHalfThere(t *testing.T) {
	all := func() []string {
		l := Options{Role: Runner, BinDir: DefaultBinDir}.layout()
		return []string{l.binary, l.unit, l.kubeconfig, l.token, l.ca, l.record}
	}()
	for _, missing := range all {
		t.Run(missing, func(t *testing.T) {
			virtually(t, func(t *testing.T, h *host) {
				h.install()
				h.remove(missing)
				done, err := Remove(t.Context(), h.options)
				if err != nil || slices.Contains(done, "removed "+h.path(missing)) {
					t.Errorf("done %q, %v", done, err)
				}
				if names := h.names(); len(names) > 0 {
					t.Errorf("left are %q", names)
				}
			})
		})
	}
}

func TestRemoveDoesNothingWhileAnInstallerRunsOrSystemdDoesNotAnswer(t *testing.T) {
	virtually(t, func(t *testing.T, h *host) {
		k := h.keep("1")
		before := h.tree()
		if done, err := Remove(t.Context(), h.options); err == nil || len(done) > 0 || !strings.Contains(err.Error(), "delete its DaemonSet") {
			t.Errorf("done %q, %v", done, err)
		}
		if after := h.tree(); !slices.Equal(before, after) {
			t.Errorf("before %q, after %q", before, after)
		}
		if err := k.stop(); err != nil {
			t.Fatal(err)
		}
		h.systemd.fail(errors.New("systemd does not answer"))
		if _, err := Remove(t.Context(), h.options); err == nil || err.Error() != "systemd does not answer; nothing was removed" {
			t.Errorf("got %v", err)
		}
		if names := h.names(); len(names) != 6 {
			t.Errorf("left are %q", names)
		}
	})
}
