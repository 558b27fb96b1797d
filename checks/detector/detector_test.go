package detector_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/checks/statefile"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/demand"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/loopback"
)

// newAPIServer serves one Node and hands over the conditions of every patch.
func newAPIServer(t *testing.T, node *corev1.Node) (*rest.Config, <-chan corev1.NodeCondition) {
	t.Helper()
	written := make(chan corev1.NodeCondition, 100)
	node.APIVersion, node.Kind = "v1", "Node"
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("GET /api/v1/nodes/worker-1", func(w http.ResponseWriter, _ *http.Request) { answer(w, node) })
	mux.HandleFunc("PATCH /api/v1/nodes/worker-1/status", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Content-Type"); got != "application/strategic-merge-patch+json" {
			t.Errorf("patch is %s: it would replace the conditions of others", got)
		}
		if got := r.URL.Query().Get("fieldManager"); got != "nodemend-detector" {
			t.Errorf("field manager is %q", got)
		}
		var patch corev1.Node
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			t.Error(err)
		}
		for _, c := range patch.Status.Conditions {
			written <- c
		}
		answer(w, node)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, written
}

func TestWhatTheRuntimeDoesReachesTheNodeUntilTheDetectorIsStopped(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cri.sock")
	runtime, err := criserver.Start(t.Context(), socket, criserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	client, written := newAPIServer(t, &corev1.Node{})
	health, metricsAddress := loopback.Address(t), loopback.Address(t)
	settings := config.Default()
	settings.StateFile = filepath.Join(t.TempDir(), "state.json")
	settings.Socket = filepath.Join(t.TempDir(), "run", "detector.sock")
	settings.Checks.Only = []string{"runtime"}
	r := &settings.Checks.Runtime
	r.Endpoint = "unix://" + socket
	r.Interval.Duration, r.Timeout.Duration, r.StartupGrace.Duration = 100*time.Millisecond, time.Second, 0

	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() {
		ended <- detector.Run(ctx, detector.Options{NodeName: "worker-1", Config: settings, Client: client, HealthAddress: health, MetricsAddress: metricsAddress})
	}()
	expect := func(status corev1.ConditionStatus, reason string) {
		t.Helper()
		select {
		case c := <-written:
			if c.Type != containerruntime.ConditionType || c.Status != status || c.Reason != reason {
				t.Errorf("written %s=%s %s (%s), want %s %s", c.Type, c.Status, c.Reason, c.Message, status, reason)
			}
		case err := <-ended:
			t.Fatal("the detector has ended: ", err)
		case <-time.After(time.Minute):
			t.Fatalf("%s %s is not written within a minute", status, reason)
		}
	}
	expect(corev1.ConditionFalse, containerruntime.ReasonHealthy)
	runtime.Hang()
	expect(corev1.ConditionTrue, containerruntime.ReasonTimeout)
	runtime.Resume()
	expect(corev1.ConditionFalse, containerruntime.ReasonHealthy)

	base := "http://" + health
	awaitServed(t, health)
	awaitServed(t, metricsAddress)
	if code, body := fetch(t, base+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz answers %d %q", code, body)
	}
	if _, body := fetch(t, base+"/conditions"); !strings.Contains(body, `"type":"ContainerRuntimeUnhealthy","status":"False"`) {
		t.Errorf("/conditions is %s", body)
	}
	if err := demand.Send(t.Context(), settings.Socket); err != nil {
		t.Error(err)
	}
	_, metrics := fetch(t, "http://"+metricsAddress+"/metrics")
	for _, name := range []string{
		`nodemend_check_duration_seconds_count{check="runtime"}`,
		`nodemend_check_last_run_timestamp_seconds{check="runtime"}`,
		`nodemend_check_success{check="runtime"} 1`,
		`nodemend_check_runs_total{check="runtime",status="True"}`,
		`nodemend_detector_requests_total{result="success",verb="patch"}`,
		`nodemend_detector_last_successful_patch_timestamp_seconds`,
		`process_resident_memory_bytes`,
		`problem_counter`,
		`problem_gauge{reason="ContainerRuntimeHealthy",type="ContainerRuntimeUnhealthy"} 0`,
	} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", health); err == nil {
		t.Error("the address is still served after the end")
	}
	if _, err := os.Stat(settings.Socket); err == nil {
		t.Error("the socket is still there after the end")
	}
	if state, err := statefile.Load(settings.StateFile, "worker-1"); err != nil || len(state.Conditions) != 1 {
		t.Errorf("the state file holds %+v, %v", state, err)
	}
}

// awaitServed waits until somebody listens at the address.
func awaitServed(t *testing.T, address string) {
	t.Helper()
	NewWithT(t).Eventually(func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	}).WithTimeout(time.Minute).Should(Succeed())
}

func fetch(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func TestRunFailsAtOnceIfItCannotWork(t *testing.T) {
	settings := config.Default()
	settings.Checks.Runtime.Endpoint = "nowhere"
	if err := detector.Run(t.Context(), detector.Options{NodeName: "n", Config: settings, Client: &rest.Config{}}); err == nil ||
		!strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("with a wrong endpoint: %v", err)
	}
	settings = config.Default()
	if err := detector.Run(t.Context(), detector.Options{NodeName: "n", Config: settings, Client: &rest.Config{Host: "::"}}); err == nil {
		t.Error("a wrong address of the API server is accepted")
	}
}

func TestADetectorWhoseStateFileHangsCanBeStopped(t *testing.T) {
	settings := config.Default()
	settings.StateFile = filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(settings.StateFile, 0o600); err != nil { // opening it waits for a writer
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	stop()
	if err := detector.Run(ctx, detector.Options{NodeName: "worker-1", Config: settings, WithoutAPIServer: true}); err != nil {
		t.Error(err)
	}
	writer, err := os.OpenFile(settings.StateFile, os.O_RDWR, 0) // ends what waits
	if err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
}
