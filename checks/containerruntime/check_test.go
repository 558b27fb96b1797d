package containerruntime_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/containerruntime"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/test/criserver"
)

const (
	// patient is for runs that must succeed, also on a busy machine.
	patient = 20 * time.Second
	// hasty is for runs that must time out.
	hasty = 200 * time.Millisecond

	listPodSandbox = runtimeapi.RuntimeService_ListPodSandbox_FullMethodName
	listContainers = runtimeapi.RuntimeService_ListContainers_FullMethodName
)

func newCheck(t *testing.T, socket string, timeout time.Duration) *containerruntime.Check {
	t.Helper()
	return newCheckWith(t, containerruntime.Options{Endpoint: "unix://" + socket, Timeout: timeout})
}

func newCheckWith(t *testing.T, options containerruntime.Options) *containerruntime.Check {
	t.Helper()
	options.Clock = clock.RealClock{}
	check, err := containerruntime.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(check.Close)
	return check
}

func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "cri.sock") }

func serve(t *testing.T, socket string, options criserver.Options) *criserver.Server {
	t.Helper()
	server, err := criserver.Start(t.Context(), socket, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func expect(t *testing.T, got checks.Result, status checks.Status, reason string, mentions ...string) {
	t.Helper()
	if got.Status != status || got.Reason != reason {
		t.Errorf("got %s %s (%s), want %s %s", got.Status, got.Reason, got.Message, status, reason)
	}
	for _, text := range mentions {
		if !strings.Contains(got.Message, text) {
			t.Errorf("message %q does not mention %q", got.Message, text)
		}
	}
}

func TestOneRun(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare  func(t *testing.T, socket string)
		timeout  time.Duration
		status   checks.Status
		reason   string
		mentions []string
	}{
		"healthy": {
			func(t *testing.T, socket string) {
				serve(t, socket, criserver.Options{Sandboxes: 7, Containers: 3000})
			},
			patient, checks.False, containerruntime.ReasonHealthy,
			[]string{"Status answered", "7 sandboxes", "3000 containers", "deadline 20s"},
		},
		"network not ready is not a fault of the runtime": {
			func(t *testing.T, socket string) {
				serve(t, socket, criserver.Options{}).NetworkNotReady("NetworkPluginNotReady")
			},
			patient, checks.False, containerruntime.ReasonHealthy, []string{"NetworkReady=false: NetworkPluginNotReady"},
		},
		"not ready": {
			func(t *testing.T, socket string) { serve(t, socket, criserver.Options{}).NotReady("ShimBroken") },
			patient, checks.True, containerruntime.ReasonNotReady, []string{"ShimBroken"},
		},
		"every call hangs": {
			func(t *testing.T, socket string) { serve(t, socket, criserver.Options{}).Hang() },
			hasty, checks.True, containerruntime.ReasonTimeout, []string{"Status, ListPodSandbox and ListContainers timed out", "deadline 200ms"},
		},
		"only the list of sandboxes hangs": {
			func(t *testing.T, socket string) {
				serve(t, socket, criserver.Options{HangMethods: []string{listPodSandbox}}).Hang()
			},
			time.Second, checks.True, containerruntime.ReasonTimeout, []string{": ListPodSandbox timed out after", "(deadline 1s); Status answered"},
		},
		"only the list of containers hangs": {
			func(t *testing.T, socket string) {
				serve(t, socket, criserver.Options{HangMethods: []string{listContainers}}).Hang()
			},
			time.Second, checks.True, containerruntime.ReasonTimeout, []string{": ListContainers timed out after", "(deadline 1s); Status answered"},
		},
		"connections are queued but not accepted": {
			func(t *testing.T, socket string) { listen(t, socket) },
			hasty, checks.True, containerruntime.ReasonTimeout, nil,
		},
		"no socket": {
			func(*testing.T, string) {},
			patient, checks.True, containerruntime.ReasonSocketMissing, []string{"cri.sock"},
		},
		"nobody listens": {
			func(t *testing.T, socket string) {
				listener := listen(t, socket)
				listener.SetUnlinkOnClose(false)
				if err := listener.Close(); err != nil {
					t.Fatal(err)
				}
			},
			patient, checks.True, containerruntime.ReasonConnectionRefused, nil,
		},
		"something else listens": {
			func(t *testing.T, socket string) {
				server, listener := grpc.NewServer(), listen(t, socket)
				go func() { _ = server.Serve(listener) }()
				t.Cleanup(server.Stop)
			},
			patient, checks.Unknown, containerruntime.ReasonInvalidEndpoint, []string{"runtime.v1.RuntimeService"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			socket := socketPath(t)
			tc.prepare(t, socket)
			got := newCheck(t, socket, tc.timeout).Run(t.Context())
			expect(t, got, tc.status, tc.reason, append(tc.mentions, "unix://"+socket)...)
		})
	}
}

func listen(t *testing.T, socket string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

type countingListener struct {
	net.Listener
	accepted atomic.Int32
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

// runInHaste is a run that gives up soon, of a check that has time otherwise.
func runInHaste(t *testing.T, check *containerruntime.Check) checks.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hasty)
	defer cancel()
	return check.Run(ctx)
}

func TestTheFirstRunAfterRecoveryIsHealthy(t *testing.T) {
	t.Run("from a hang of an established connection", func(t *testing.T) {
		socket := socketPath(t)
		server := serve(t, socket, criserver.Options{})
		check := newCheck(t, socket, patient)
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
		server.Hang()
		expect(t, runInHaste(t, check), checks.True, containerruntime.ReasonTimeout)
		expect(t, runInHaste(t, check), checks.True, containerruntime.ReasonTimeout)
		server.Resume()
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a stop before connections were accepted", func(t *testing.T) {
		socket := socketPath(t)
		listener := listen(t, socket)
		check := newCheck(t, socket, patient)
		expect(t, runInHaste(t, check), checks.True, containerruntime.ReasonTimeout)
		expect(t, runInHaste(t, check), checks.True, containerruntime.ReasonTimeout)
		counted := &countingListener{Listener: listener}
		t.Cleanup(criserver.Serve(counted, criserver.Options{}).Stop)
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
		if n := counted.accepted.Load(); n != 1 {
			t.Errorf("the runs left %d connections in the queue, want one that they share", n)
		}
	})
	t.Run("from a hung process that was replaced but keeps the connection", func(t *testing.T) {
		socket := socketPath(t)
		hung := serve(t, socket, criserver.Options{})
		check := newCheck(t, socket, patient)
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
		hung.Hang()
		serve(t, socket, criserver.Options{})
		expect(t, runInHaste(t, check), checks.True, containerruntime.ReasonTimeout)
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a restart right before the run", func(t *testing.T) {
		socket := socketPath(t)
		check := newCheck(t, socket, patient)
		for range 20 {
			server := serve(t, socket, criserver.Options{})
			expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
			server.Stop()
		}
	})
	t.Run("from an absence", func(t *testing.T) {
		socket := socketPath(t)
		check := newCheck(t, socket, patient)
		expect(t, check.Run(t.Context()), checks.True, containerruntime.ReasonSocketMissing)
		expect(t, check.Run(t.Context()), checks.True, containerruntime.ReasonSocketMissing)
		serve(t, socket, criserver.Options{})
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a restart between two runs", func(t *testing.T) {
		socket := socketPath(t)
		server := serve(t, socket, criserver.Options{})
		check := newCheck(t, socket, patient)
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
		server.Stop()
		expect(t, check.Run(t.Context()), checks.True, containerruntime.ReasonSocketMissing)
		serve(t, socket, criserver.Options{})
		expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
	})
}

func TestAnInterruptedRunIsNoVerdict(t *testing.T) {
	socket := socketPath(t)
	serve(t, socket, criserver.Options{}).Hang()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, newCheck(t, socket, patient).Run(ctx), checks.Unknown, containerruntime.ReasonInterrupted)
}

// The default deadline is of each call, not of the run.
func TestSlowCallsAreMadeAtTheSameTime(t *testing.T) {
	t.Parallel()
	socket := socketPath(t)
	serve(t, socket, criserver.Options{Delay: 5 * time.Second})
	check := newCheck(t, socket, config.Default().Checks.Runtime.Timeout.Duration)
	ctx, cancel := context.WithTimeout(t.Context(), check.Timeout())
	defer cancel()
	expect(t, check.Run(ctx), checks.False, containerruntime.ReasonHealthy, "answered in 5.", "deadline 20s")
	if ctx.Err() != nil {
		t.Error("the run took longer than Timeout says")
	}
}

func TestTheNetworkMattersIfAsked(t *testing.T) {
	socket := socketPath(t)
	server := serve(t, socket, criserver.Options{})
	server.NetworkNotReady("NetworkPluginNotReady")
	check := newCheckWith(t, containerruntime.Options{Endpoint: "unix://" + socket, Timeout: patient, NetworkNotReady: true})
	expect(t, check.Run(t.Context()), checks.True, containerruntime.ReasonNetworkNotReady, "NetworkPluginNotReady")
	server.NetworkNotReady("")
	expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
}

func TestAnEndpointIsFound(t *testing.T) {
	dir := t.TempDir()
	specific, general, third := filepath.Join(dir, "k3s.sock"), filepath.Join(dir, "containerd.sock"), filepath.Join(dir, "third.sock")
	check := newCheckWith(t, containerruntime.Options{Candidates: []string{specific, general, third}, Timeout: patient})

	expect(t, check.Run(t.Context()), checks.True, containerruntime.ReasonSocketMissing, specific, general, third)
	if err := check.Probe(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a probe of nothing returns %v", err)
	}
	if err := os.Mkdir(specific, 0o700); err != nil {
		t.Fatal(err)
	}
	first := serve(t, general, criserver.Options{})
	expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy, "unix://"+general+":")

	t.Log("another one does not stand in for it")
	first.Stop()
	serve(t, third, criserver.Options{})
	expect(t, check.Run(t.Context()), checks.True, containerruntime.ReasonSocketMissing, "unix://"+general+":")
	if err := check.Probe(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), general) {
		t.Errorf("a probe of the chosen one returns %v", err)
	}
	serve(t, general, criserver.Options{})
	expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy, "unix://"+general+":")

	t.Log("a more specific one does")
	if err := os.Remove(specific); err != nil {
		t.Fatal(err)
	}
	serve(t, specific, criserver.Options{})
	expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy, "unix://"+specific+":")
}

func TestAProbeDoesNotDisturbARun(t *testing.T) {
	socket := socketPath(t)
	server := serve(t, socket, criserver.Options{Sandboxes: 3})
	check := newCheck(t, socket, patient)
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				expect(t, check.Run(t.Context()), checks.False, containerruntime.ReasonHealthy)
			}
		}
	})
	for range 20 {
		if err := check.Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	running.Wait()

	server.Hang()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), hasty)
		if err := check.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), socket) {
			t.Errorf("a probe of a runtime that hangs returns %v", err)
		}
		cancel()
	}
	server.Resume()
	if err := check.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEndpointsThatAreNoUnixSocketsAreRefused(t *testing.T) {
	for _, endpoint := range []string{"/run/containerd/containerd.sock", "unix://relative.sock", "tcp://127.0.0.1:1234"} {
		if _, err := containerruntime.New(containerruntime.Options{Endpoint: endpoint}); err == nil || !strings.Contains(err.Error(), "unix:///run") {
			t.Errorf("endpoint %q: got error %v, want one that shows what is accepted", endpoint, err)
		}
	}
}

func TestASocketThatMayNotBeOpenedIsNoVerdict(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open every socket")
	}
	socket := socketPath(t)
	serve(t, socket, criserver.Options{})
	if err := os.Chmod(socket, 0); err != nil {
		t.Fatal(err)
	}
	expect(t, newCheck(t, socket, patient).Run(t.Context()), checks.Unknown, containerruntime.ReasonNoAccess)
}
