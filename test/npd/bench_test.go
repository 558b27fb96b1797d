//go:build integration

package npd

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/kubelet"
	"github.com/nodemend/nodemend/test/process"
)

// BenchmarkMemoryAndCPU prints what the detector with all its checks needs beside
// a real kubelet, and what node-problem-detector needs with one plugin that runs
// once a second.
func BenchmarkMemoryAndCPU(b *testing.B) {
	const settled, measured = 40 * time.Second, 60 * time.Second
	if err := build(); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	socket := filepath.Join(dir, "cri.sock")
	runtime, err := criserver.Start(b.Context(), socket, criserver.Options{Sandboxes: 30})
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.Stop()
	node := fmt.Sprint("bench-", time.Now().UnixNano())
	k := kubelet.Start(b, kubelet.Options{Cluster: clustertest.Shared(b), NodeName: node, RuntimeEndpoint: "unix://" + socket})
	config := filepath.Join(dir, "detector.yaml")
	write(b, config, fmt.Sprintf(`
stateFile: %s
socket: %s
kubelet: {endpoint: %q, healthzEndpoint: %q, certificateFiles: [%s], insecureSkipTLSVerify: false}
checks:
  runtime: {endpoint: "unix://%s", interval: 10s, timeout: 2s}
  pleg: {interval: 10s, timeout: 2s}
  kubelet: {interval: 10s, timeout: 2s}
`, filepath.Join(dir, "state.json"), filepath.Join(dir, "detector.sock"), k.Endpoint, k.HealthzEndpoint, k.CertificateFile, socket))
	plugin := filepath.Join(dir, "plugin.json")
	write(b, plugin, `{"plugin": "custom", "pluginConfig": {"invoke_interval": "1s", "timeout": "1s"}, "source": "bench",
		"conditions": [{"type": "Bench", "reason": "Fine", "message": "fine"}],
		"rules": [{"type": "permanent", "condition": "Bench", "reason": "Bad", "path": "/bin/true"}]}`)
	kubeconfig := clustertest.Shared(b).Kubeconfig

	theirs := benchProcess(b, dir, "127.11.0.1", "nodeproblemdetector",
		"--apiserver-override=https://unused?inClusterConfig=false&auth="+kubeconfig, "--hostname-override="+node,
		"--config.custom-plugin-monitor="+plugin)
	ours := benchProcess(b, dir, "127.11.0.2", ours, "detector", "--config="+config, "--kubeconfig="+kubeconfig, "--node-name="+node)
	time.Sleep(settled) //nolint:forbidigo // what is measured is what a process needs when nothing happens
	before, ranBefore := ours.cpu(b), ours.runs(b)
	time.Sleep(measured) //nolint:forbidigo // see above
	cpu, ran := ours.cpu(b)-before, ours.runs(b)-ranBefore

	b.ReportMetric(theirs.kilobytes(b, "VmRSS")/1024, "npd-rss-MB")
	b.ReportMetric(theirs.kilobytes(b, "RssAnon")/1024, "npd-anon-MB")
	b.ReportMetric(ours.kilobytes(b, "VmRSS")/1024, "detector-rss-MB")
	b.ReportMetric(ours.kilobytes(b, "RssAnon")/1024, "detector-anon-MB")
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(ran), "detector-cpu-ms/run")
	b.ReportMetric(0, "ns/op")
	client, err := corev1client.NewForConfig(clustertest.Shared(b).Config)
	if err != nil {
		b.Fatal(err)
	}
	n, err := client.Nodes().Get(b.Context(), node, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if strings.HasSuffix(string(c.Type), "Unhealthy") && c.Status != corev1.ConditionFalse {
			b.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
}

func write(b *testing.B, path, text string) {
	b.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// measuredProcess is a program that is measured until the benchmark ends.
type measuredProcess struct {
	pid     int
	address string
}

func benchProcess(b *testing.B, dir, address, name string, args ...string) measuredProcess {
	b.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		b.Fatal(err)
	}
	args = append(args, "--address="+address, "--prometheus-address="+address)
	path := filepath.Join(programsDir(), name)
	started, err := process.Start(&exec.Cmd{Path: path, Args: append([]string{path}, args...), Stdout: log, Stderr: log}, log)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		started.Kill()
		if b.Failed() {
			text, _ := os.ReadFile(log.Name())
			b.Logf("%s:\n%s", name, text)
		}
	})
	return measuredProcess{started.Pid, address}
}

// kilobytes returns a figure of the process's memory.
func (p measuredProcess) kilobytes(b *testing.B, name string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb
		}
	}
	b.Fatalf("the kernel does not tell %s", name)
	return 0
}

// cpu is the process's own CPU time.
func (p measuredProcess) cpu(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:])
	var ticks int
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}

// runs is how many runs of checks the process has counted.
func (p measuredProcess) runs(b *testing.B) (sum int) {
	b.Helper()
	response, err := http.Get("http://" + p.address + ":" + metricsPort + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(io.LimitReader(response.Body, 1<<20)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "nodemend_check_runs_total{"); found {
			n, err := strconv.ParseFloat(value[strings.LastIndex(value, " ")+1:], 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += int(n)
		}
	}
	return sum
}
