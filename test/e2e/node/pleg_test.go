//go:build e2e

package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// A relist asks for the status of each pod that has changed, and waits. The kubelet's metrics
// need no such call, so that they tell of it. containerd answers from its memory, whatever
// hangs below it: what hangs is put between the two.
func TestAStalledRelistOfTheKubeletIsSeenWhileTheRuntimeIsHealthyAndARestartEndsIt(t *testing.T) {
	s := begin(t)
	w := s.between()
	containers, pid := s.containers(), s.mainPID(containerd)
	s.Apply("pleg", s.Shipped("pleg"))

	w.stalled.Store(true)
	pod := s.file("changed.yaml", fmt.Sprintf(changedPod, s.node.Name))
	t.Cleanup(func() { s.kubectlMust("delete", "-f", pod, "--force", "--grace-period=0", "--timeout=300s") })
	s.kubectlMust("apply", "-f", pod)
	took := s.Until(round, "the detector sees it", s.Is(plegCondition, corev1.ConditionTrue))
	if c := s.Condition(runtimeCondition); c.Status != corev1.ConditionFalse {
		t.Errorf("the runtime is said to be ill: %s", story.Describe(c))
	}
	if c := s.Condition(corev1.NodeReady); c.Status != corev1.ConditionTrue {
		t.Errorf("the kubelet has been faster: %s", story.Describe(c))
	}
	s.Proved("%s after %.0f s, before the kubelet itself is NotReady, the runtime healthy", story.Describe(s.Condition(plegCondition)), took.Seconds())
	s.recovered("restartUnit Succeeded")
	if s.mainPID(containerd) == pid {
		t.Error("containerd's main process is still the same")
	}
	s.untouched(containers)
}

// changedPod is one for the kubelet to ask for.
const changedPod = `
apiVersion: v1
kind: Pod
metadata: {name: changed, namespace: default}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers: [{name: sleeper, image: ` + node.BusyboxImage + `}]
`

// waypoint passes the kubelet's calls on to containerd. While it is stalled it keeps back
// those for the status of a pod, until containerd is another process.
type waypoint struct {
	stalled atomic.Bool
	passed  atomic.Int32 // calls
	runtime *grpc.ClientConn
	pid     func(context.Context) (int, error)
	first   int
}

// between puts a waypoint between the kubelet and containerd, for as long as the test
// takes.
func (s *scenario) between() *waypoint {
	s.Helper()
	const (
		socket = "/run/e2e-cri.sock"
		config = "/etc/kubernetes/kubelet.yaml"
		usual  = "/run/containerd/containerd.sock"
	)
	swap := func(from, to string) {
		s.run("sed -i s#" + from + "#" + to + "# " + config + " && systemctl restart " + kubelet)
	}
	connection, err := grpc.NewClient(s.node.RuntimeEndpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.Must(err)
	w := &waypoint{runtime: connection, first: s.mainPID(containerd)}
	w.pid = func(ctx context.Context) (int, error) { return s.node.MainPID(ctx, containerd) }
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(w.pass))
	outside := filepath.Join(strings.TrimSuffix(strings.TrimPrefix(s.node.RuntimeEndpoint(), "unix://"), strings.TrimPrefix(usual, "/run")), filepath.Base(socket))
	listener, err := (&net.ListenConfig{}).Listen(s.Ctx, "unix", outside)
	s.Must(err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.Cleanup(func() {
		w.stalled.Store(false)
		swap(socket, usual)
		server.Stop()
		s.Must(<-served)
		s.Must(connection.Close())
		_ = os.Remove(outside) // the server has done it
	})
	swap(usual, socket)
	const some = 5
	s.Until(moment, "the kubelet relists through it", func() (bool, string) {
		passed := w.passed.Load()
		return passed >= some, fmt.Sprintf("%d calls", passed)
	})
	s.untilHealthy()
	return w
}

func (w *waypoint) pass(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var question, answer []byte
	if err := stream.RecvMsg(&question); err != nil {
		return err
	}
	if strings.HasSuffix(method, "/PodSandboxStatus") {
		if err := w.hold(stream.Context()); err != nil {
			return err
		}
	}
	w.passed.Add(1)
	if err := w.runtime.Invoke(stream.Context(), method, &question, &answer, grpc.ForceCodec(raw{})); err != nil {
		return err
	}
	return stream.SendMsg(&answer)
}

// hold returns when nothing is stalled any more.
func (w *waypoint) hold(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for w.stalled.Load() {
		if pid, err := w.pid(ctx); err == nil && pid != w.first {
			w.stalled.Store(false)
			break
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-tick.C:
		}
	}
	return nil
}

// raw leaves messages as they are.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(v any) ([]byte, error) {
	if data, ok := v.(*[]byte); ok {
		return *data, nil
	}
	return nil, status.Error(codes.Internal, fmt.Sprintf("a message is %T, want bytes", v))
}

func (raw) Unmarshal(data []byte, v any) error {
	if into, ok := v.(*[]byte); ok {
		*into = append([]byte(nil), data...)
		return nil
	}
	return status.Error(codes.Internal, fmt.Sprintf("a message is %T, want bytes", v))
}
