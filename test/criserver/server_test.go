package criserver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodemend/nodemend/test/criserver"
)

const listPodSandbox = "/runtime.v1.RuntimeService/ListPodSandbox"

func connect(t *testing.T, options criserver.Options) (*criserver.Server, runtimeapi.RuntimeServiceClient) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	server, err := criserver.Start(t.Context(), socket, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return server, runtimeapi.NewRuntimeServiceClient(conn)
}

func TestItAnswersTheCallsThatJudgeARuntime(t *testing.T) {
	server, client := connect(t, criserver.Options{Sandboxes: 3, Containers: 4})
	if _, err := client.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil {
		t.Error(err)
	}
	if containers, err := client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{}); err != nil || len(containers.GetContainers()) != 4 {
		t.Errorf("ListContainers returned %v, %v; want 4 containers", containers, err)
	}
	list, err := client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil || len(list.GetItems()) != 3 {
		t.Errorf("ListPodSandbox returned %v, %v; want 3 sandboxes", list, err)
	}
	for _, reason := range []string{"", "Broken", ""} {
		server.NotReady(reason)
		response, err := client.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if ready := response.GetStatus().GetConditions()[0]; ready.GetStatus() != (reason == "") || ready.GetReason() != reason {
			t.Errorf("with NotReady(%q) it reports %v", reason, ready)
		}
	}
}

func TestACallThatHangsIsAnsweredWhenResumed(t *testing.T) {
	hangFile := filepath.Join(t.TempDir(), "hang")
	touch := func() {
		if err := os.WriteFile(hangFile, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	server, client := connect(t, criserver.Options{HangFile: hangFile, HangMethods: []string{listPodSandbox}})
	for name, tc := range map[string]struct{ hang, resume func() }{
		"by method": {server.Hang, server.Resume},
		"by file":   {touch, func() { _ = os.Remove(hangFile) }},
	} {
		t.Run(name, func(t *testing.T) {
			tc.hang()
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := client.ListPodSandbox(short, &runtimeapi.ListPodSandboxRequest{}); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("hanging call returned %v, want a deadline exceeded", err)
			}
			if _, err := client.Status(t.Context(), &runtimeapi.StatusRequest{}); err != nil {
				t.Errorf("a call that is not in HangMethods failed: %v", err)
			}
			answered := make(chan error, 1)
			go func() {
				_, err := client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
				answered <- err
			}()
			tc.resume()
			if err := <-answered; err != nil {
				t.Errorf("after resuming: %v", err)
			}
		})
	}
}

func TestEveryCallTakesTheDelay(t *testing.T) {
	const delay = 50 * time.Millisecond
	server, client := connect(t, criserver.Options{Delay: delay})
	started := time.Now()
	if _, err := client.Version(t.Context(), &runtimeapi.VersionRequest{}); err != nil || time.Since(started) < delay {
		t.Errorf("answered after %s, %v; want a delay of %s", time.Since(started), err, delay)
	}
	server.Hang()
	short, cancel := context.WithTimeout(t.Context(), delay)
	defer cancel()
	if _, err := client.Version(short, &runtimeapi.VersionRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("hanging call returned %v, want a deadline exceeded", err)
	}
}

func TestStopEndsCallsThatHang(t *testing.T) {
	server, client := connect(t, criserver.Options{})
	server.Hang()
	failed := make(chan error, 1)
	go func() {
		_, err := client.Status(t.Context(), &runtimeapi.StatusRequest{})
		failed <- err
	}()
	server.Stop()
	if err := <-failed; err == nil {
		t.Error("a hanging call succeeded after Stop")
	}
}
