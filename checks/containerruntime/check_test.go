package containerruntime_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/node-problem-detector/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/test/criserver"
)

const (
	// patient is for runs that must succeed, also on a busy machine.
	patient = 20 * time.Second
	// hasty is for runs that must time out.
	hasty = 200 * time.Millisecond

	listPodSandbox = "/runtime.v1.RuntimeService/ListPodSandbox"
)

func newCheck(t *testing.T, socket string, timeout time.Duration) *containerruntime.Check {
	t.Helper()
	check, err := containerruntime.New(containerruntime.Options{
		Endpoint: "unix://" + socket, Timeout: timeout, Clock: clock.RealClock{},
	})
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

func expect(t *testing.T, got checks.Result, status types.ConditionStatus, reason string, mentions ...string) {
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
		status   types.ConditionStatus
		reason   string
		mentions []string
	}{
		"healthy": {
			func(t *testing.T, socket string) { serve(t, socket, criserver.Options{Sandboxes: 7}) },
			patient, types.False, containerruntime.ReasonHealthy, []string{"7 sandboxes", "deadline 20s", "Status", "ListPodSandbox"},
		},
		"network not ready is not a fault of the runtime": {
			func(t *testing.T, socket string) {
				serve(t, socket, criserver.Options{}).NetworkNotReady("NetworkPluginNotReady")
			},
			patient, types.False, containerruntime.ReasonHealthy, []string{"NetworkReady=false: NetworkPluginNotReady"},
		},
		"not ready": {
			func(t *testing.T, socket string) { serve(t, socket, criserver.Options{}).NotReady("ShimBroken") },
			patient, types.True, containerruntime.ReasonRuntimeNotReady, []string{"ShimBroken"},
		},
		"every call hangs": {
			func(t *testing.T, socket string) { serve(t, socket, criserver.Options{}).Hang() },
			hasty, types.True, containerruntime.ReasonStatusTimeout, []string{"Status", "200ms"},
		},
		"only listing hangs": {
			func(t *testing.T, socket string) {
				serve(t, socket, criserver.Options{HangMethods: []string{listPodSandbox}}).Hang()
			},
			time.Second, types.True, containerruntime.ReasonListTimeout, []string{"ListPodSandbox", "1s"},
		},
		"connections are queued but not accepted": {
			func(t *testing.T, socket string) { listen(t, socket) },
			hasty, types.True, containerruntime.ReasonStatusTimeout, nil,
		},
		"no socket": {
			func(*testing.T, string) {},
			patient, types.True, containerruntime.ReasonSocketMissing, []string{"cri.sock"},
		},
		"nobody listens": {
			func(t *testing.T, socket string) {
				listener := listen(t, socket)
				listener.SetUnlinkOnClose(false)
				if err := listener.Close(); err != nil {
					t.Fatal(err)
				}
			},
			patient, types.True, containerruntime.ReasonConnectionRefused, nil,
		},
		"something else listens": {
			func(t *testing.T, socket string) {
				server, listener := grpc.NewServer(), listen(t, socket)
				go func() { _ = server.Serve(listener) }()
				t.Cleanup(server.Stop)
			},
			patient, types.Unknown, containerruntime.ReasonInvalidEndpoint, []string{"runtime.v1.RuntimeService"},
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

func TestTheFirstRunAfterRecoveryIsHealthy(t *testing.T) {
	t.Run("from a hang of an established connection", func(t *testing.T) {
		socket := socketPath(t)
		server := serve(t, socket, criserver.Options{})
		check := newCheck(t, socket, time.Second)
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
		server.Hang()
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonStatusTimeout)
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonStatusTimeout)
		server.Resume()
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a stop before connections were accepted", func(t *testing.T) {
		socket := socketPath(t)
		listener := listen(t, socket)
		check := newCheck(t, socket, time.Second)
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonStatusTimeout)
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonStatusTimeout)
		t.Cleanup(criserver.Serve(listener, criserver.Options{}).Stop)
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a hung process that was replaced but keeps the connection", func(t *testing.T) {
		socket := socketPath(t)
		hung := serve(t, socket, criserver.Options{})
		check := newCheck(t, socket, time.Second)
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
		hung.Hang()
		serve(t, socket, criserver.Options{})
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonStatusTimeout)
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a restart right before the run", func(t *testing.T) {
		socket := socketPath(t)
		check := newCheck(t, socket, patient)
		for range 20 {
			server := serve(t, socket, criserver.Options{})
			expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
			server.Stop()
		}
	})
	t.Run("from an absence", func(t *testing.T) {
		socket := socketPath(t)
		check := newCheck(t, socket, patient)
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonSocketMissing)
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonSocketMissing)
		serve(t, socket, criserver.Options{})
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
	})
	t.Run("from a restart between two runs", func(t *testing.T) {
		socket := socketPath(t)
		server := serve(t, socket, criserver.Options{})
		check := newCheck(t, socket, patient)
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
		server.Stop()
		expect(t, check.Run(t.Context()), types.True, containerruntime.ReasonSocketMissing)
		serve(t, socket, criserver.Options{})
		expect(t, check.Run(t.Context()), types.False, containerruntime.ReasonHealthy)
	})
}

func TestAnInterruptedRunIsNoVerdict(t *testing.T) {
	socket := socketPath(t)
	serve(t, socket, criserver.Options{}).Hang()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, newCheck(t, socket, patient).Run(ctx), types.Unknown, containerruntime.ReasonInterrupted)
}

func TestEndpointsThatAreNoUnixSocketsAreRefused(t *testing.T) {
	for _, endpoint := range []string{"", "/run/containerd/containerd.sock", "unix://relative.sock", "tcp://127.0.0.1:1234"} {
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
	expect(t, newCheck(t, socket, patient).Run(t.Context()), types.Unknown, containerruntime.ReasonNoAccess)
}
