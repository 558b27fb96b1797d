// Package containerd starts a real containerd for tests, apart from any other on
// the machine.
package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/test/process"
)

const (
	// startTimeout is how long it may take until its socket exists.
	startTimeout = time.Minute
	pollInterval = 50 * time.Millisecond
	// tailBytes is how much of its log a failing test shows.
	tailBytes = 4 << 10
)

// Containerd is a containerd that has been started, without any workload.
type Containerd struct {
	// Endpoint of its CRI, "unix:///tmp/…".
	Endpoint string
	// Process is to be signalled by the test.
	Process *process.Process
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
	cmd := &exec.Cmd{Path: program, Args: []string{program, "--config", dir + "/config.toml"}, Stdout: logFile, Stderr: logFile}
	started, err := process.Start(cmd, logFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		started.Kill() // works on a stopped process, too
		if t.Failed() {
			text, _ := process.Tail(logFile.Name(), tailBytes) // at worst there is nothing to show
			t.Logf("the end of containerd's log:\n%s", text)
		}
	})
	err = wait.PollUntilContextTimeout(t.Context(), pollInterval, startTimeout, true, func(context.Context) (bool, error) {
		_, err := os.Stat(socket)
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("containerd has made no socket within %s", startTimeout)
	}
	return &Containerd{Endpoint: "unix://" + socket, Process: started}
}
