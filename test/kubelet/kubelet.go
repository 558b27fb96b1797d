package kubelet

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/loopback"
	"github.com/nodemend/nodemend/test/process"
)

const (
	// pollInterval is the pause between two looks at whether it listens.
	pollInterval = 50 * time.Millisecond
	// startTimeout is how long it may take until it listens. It needs half a
	// second on two idle cores.
	startTimeout = 2 * time.Minute
	// stopGrace is how long it may take to stop before it is killed.
	stopGrace = 20 * time.Second
)

// Options of a kubelet.
type Options struct {
	// Cluster that it registers its Node with. Required.
	Cluster *cluster.Cluster
	// NodeName is the name of that Node. Required.
	NodeName string
	// RuntimeEndpoint is the CRI socket, such as unix:///tmp/x/cri.sock. The
	// socket must not be below /var/lib or /var/log. Required.
	RuntimeEndpoint string
	// Config overrides fields of the KubeletConfiguration
	// (kubelet.config.k8s.io/v1beta1), such as
	// {"featureGates": map[string]any{"EventedPLEG": true}}.
	Config map[string]any
}

// Kubelet is a kubelet that has been started. Its methods must not be called
// concurrently.
type Kubelet struct {
	// Endpoint is its authenticated server, "https://127.0.0.1:…".
	Endpoint string
	// HealthzEndpoint is its plain health server, "http://127.0.0.1:…".
	HealthzEndpoint string
	// CertificateFile holds, in PEM, the certificate that Endpoint serves and the
	// one that has signed it. Its only subject is the name of the Node, so a
	// client must set that as the server's name.
	CertificateFile string
	// LogFile is its log, over all restarts; it ends with the test.
	LogFile string

	t       testing.TB
	args    []string
	process *process.Process
}

// Start starts a kubelet, which ends with the test, and returns when both of its
// servers listen; its Node becomes Ready some seconds later. If the test fails,
// the end of the kubelet's log is logged. The test is skipped if it does not run
// as root.
func Start(t testing.TB, options Options) *Kubelet {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to run a kubelet")
	}
	k, err := prepare(t, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Stop()
		if t.Failed() {
			t.Log("the end of the kubelet's log:\n", tail(k.LogFile))
		}
	})
	k.start()
	return k
}

// Stop stops the kubelet; its Node stays. A kubelet that has exited by itself
// before fails the test. Stopping a stopped one does nothing.
func (k *Kubelet) Stop() {
	k.t.Helper()
	if k.process == nil {
		return
	}
	err := stopProcess(k.process)
	k.process = nil
	if err != nil {
		k.t.Errorf("stopping the kubelet: %v; see its log", err)
	}
}

// Restart stops the kubelet if it runs and starts it with the same ports,
// certificate and directories. It returns when both of its servers listen.
func (k *Kubelet) Restart() {
	k.t.Helper()
	k.Stop()
	k.start()
}

// prepare makes all that outlives a restart.
func prepare(t testing.TB, options Options) (*Kubelet, error) {
	// Not t.TempDir: its name can be too long for the sockets in it.
	dir, err := os.MkdirTemp("", "nodemend-kubelet-") //nolint:usetesting // see above
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing the kubelet's directory: %v", err)
		}
	})
	address, err := nodeIP()
	if err != nil {
		return nil, err
	}
	port, healthzPort := loopback.Port(t), loopback.Port(t)
	k := &Kubelet{
		Endpoint:        fmt.Sprintf("https://127.0.0.1:%d", port),
		HealthzEndpoint: fmt.Sprintf("http://127.0.0.1:%d", healthzPort),
		CertificateFile: filepath.Join(dir, "pki", "kubelet.crt"),
		LogFile:         filepath.Join(dir, "kubelet.log"),
		t:               t,
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	user := options.Cluster.UserConfig("system:node:"+options.NodeName, "system:nodes")
	if err := cluster.WriteKubeconfig(kubeconfig, user); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := writeConfig(config, dir, port, healthzPort, options); err != nil {
		return nil, err
	}
	program, err := cluster.Program("kubelet")
	if err != nil {
		return nil, err
	}
	k.args = append(isolated(dir), program,
		"--kubeconfig="+kubeconfig,
		"--config="+config,
		"--hostname-override="+options.NodeName,
		"--node-ip="+address.String(),
		"--root-dir="+filepath.Join(dir, "root"),
		"--cert-dir="+filepath.Dir(k.CertificateFile),
		"--v=2",
	)
	return k, nil
}

func (k *Kubelet) start() {
	k.t.Helper()
	var err error
	if k.process, err = startProcess(k.args, k.LogFile); err != nil {
		k.t.Fatalf("starting the kubelet: %v", err)
	}
	limit := time.NewTimer(startTimeout)
	defer limit.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !k.listens() {
		select {
		case <-k.process.Exited:
			k.t.Fatal("the kubelet has exited by itself; see its log")
		case <-limit.C:
			k.t.Fatalf("the kubelet does not listen within %s; see its log", startTimeout)
		case <-tick.C:
		}
	}
}

func (k *Kubelet) listens() bool {
	request, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, k.HealthzEndpoint+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
