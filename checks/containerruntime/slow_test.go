package containerruntime

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// slowRuntime answers every call so late, unless the caller gives up.
type slowRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	delay time.Duration
}

func (s slowRuntime) wait(ctx context.Context) error {
	slow, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.delay)
	defer cancel()
	select {
	case <-slow.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowRuntime) Status(ctx context.Context, _ *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return report(true, true), s.wait(ctx)
}

func (s slowRuntime) ListPodSandbox(ctx context.Context, _ *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{}, s.wait(ctx)
}

func (s slowRuntime) ListContainers(ctx context.Context, _ *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, s.wait(ctx)
}

// A sick disk makes a runtime answer after 8 to 15 s, which no restart mends.
func TestByDefaultARuntimeThatIsSlowIsNotUnhealthyAndOneThatHangsIs(t *testing.T) {
	for _, tc := range []struct {
		delay  time.Duration
		status checks.Status
		reason string
	}{
		{time.Millisecond, checks.False, ReasonHealthy},
		{8 * time.Second, checks.False, ReasonHealthy},
		{15 * time.Second, checks.False, ReasonHealthy},
		{time.Hour, checks.True, ReasonTimeout},
	} {
		t.Run(tc.delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := bufconn.Listen(4 << 10)
				server := grpc.NewServer()
				runtimeapi.RegisterRuntimeServiceServer(server, slowRuntime{delay: tc.delay})
				go func() { _ = server.Serve(listener) }() // ends by Stop
				t.Cleanup(server.Stop)
				conn, err := grpc.NewClient("passthrough:///slow", grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
					grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec())))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				timeout := config.Default().Checks.Runtime.Timeout.Duration
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				got := observation{answers: ask(ctx, conn, clock.RealClock{}), endpoint: "unix:///x.sock", timeout: timeout}.verdict()
				if got.Status != tc.status || got.Reason != tc.reason {
					t.Errorf("got %s %s (%s), want %s %s", got.Status, got.Reason, got.Message, tc.status, tc.reason)
				}
			})
		})
	}
}
