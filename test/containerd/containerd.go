// Package containerd starts a real containerd for tests, apart from any other on
// the machine.
package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startTimeout is how long it may take until its socket exists.
	startTimeout = time.Minute
	pollInterval = 50 * time.Millisecond
)

// Containerd is a containerd that has been started, without any workload.
type Containerd struct {
	// Endpoint of its CRI, "unix:///tmp/…".
	Endpoint string
	// Process is to be signalled by the test.
	Process *os.Process
}

// Start starts a containerd, which ends with the test. The test is skipped if it
// does not run as root or if containerd is not installed.
func Start(t testing.TB) *Containerd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start containerd")
	}
	program, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("needs containerd: apt-get install containerd runc")
	}
	// Not below the test's directory: a unix socket's path has 108 characters.
	dir, err := os.MkdirTemp("", "nodemend-containerd-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing containerd's directory: %v", err)
		}
	})
	socket := dir + "/containerd.sock"
	config := fmt.Appendf(nil, `version = 2
root = %q
state = %q
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = %q
`, dir+"/root", dir+"/state", socket, socket+".ttrpc", dir+"/opt", dir+"/cni")
	if err := os.WriteFile(dir+"/config.toml", config, 0o600); err != nil {
		t.Fatal(err)
	}
	logFile, err := os.Create(dir + "/containerd.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--config", dir+"/config.toml") //nolint:gosec // found above
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // works on a stopped process, too
		_ = cmd.Wait()
		_ = logFile.Close()
		if t.Failed() {
			text, _ := os.ReadFile(logFile.Name())
			t.Logf("containerd's log:\n%s", text[max(0, len(text)-4096):])
		}
	})
	err = wait.PollUntilContextTimeout(t.Context(), pollInterval, startTimeout, true, func(context.Context) (bool, error) {
		_, err := os.Stat(socket)
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("containerd has made no socket within %s", startTimeout)
	}
	return &Containerd{Endpoint: "unix://" + socket, Process: cmd.Process}
}
