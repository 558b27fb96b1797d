//go:build integration

package npd

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/kubelet"
	"github.com/nodemend/nodemend/test/process"
)

// BenchmarkMemoryAndCPU prints what the detector needs beside a real kubelet, with all its checks
// and its rules for kernel logs, and what node-problem-detector needs with what its DaemonSet and
// its health-checker watch: the kernel's log and the kubelet. (Its statistics end it on a kernel
// without modules.) Both have the intervals that they ship with. Processor time is the processes' own, so others may be busy meanwhile.
func BenchmarkMemoryAndCPU(b *testing.B) {
	const began, settled, measured = 10 * time.Second, 50 * time.Second, 3 * time.Minute
	if err := build(); err != nil {
		b.Fatal(err)
	}
	const shippedProgram = "nodemend-agent" // which is what runs on nodes
	agent := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags=agent", "-o", filepath.Join(programsDir(), shippedProgram), "github.com/nodemend/nodemend/cmd/nodemend")
	agent.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := agent.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
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
stateFile: %[1]s/state.json
socket: %[1]s/detector.sock
kubelet: {endpoint: %[2]q, healthzEndpoint: %[3]q, certificateFiles: [%[4]s], insecureSkipTLSVerify: false}
checks:
  runtime: {endpoint: "unix://%[5]s"}
  hardware: {stateFile: %[1]s/hardware.json}
  filesystem: {write: [%[1]s]}
  tasks: {enabled: true, stateFile: %[1]s/tasks.json}
  network: {stateFile: %[1]s/network.json}
  drives: {stateFile: %[1]s/drives.json}
  memory: {stateFile: %[1]s/memory.json}
  services: {enabled: true}
`, dir, k.Endpoint, k.HealthzEndpoint, k.CertificateFile, socket))
	healthz, err := url.Parse(k.HealthzEndpoint)
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("HOST_ADDRESS", healthz.Hostname())
	b.Setenv("KUBELET_PORT", healthz.Port())

	theirs := benchProcess(b, dir, "127.11.0.1", "nodeproblemdetector", func(kubeconfig string) []string {
		folder := shipped(b, dir)
		return []string{
			"--apiserver-override=https://unused?inClusterConfig=false&auth=" + kubeconfig, "--hostname-override=" + node,
			"--config.system-log-monitor=" + folder + "/kernel-monitor.json," + folder + "/readonly-monitor.json",
			"--config.custom-plugin-monitor=" + folder + "/health-checker-kubelet.json",
		}
	})
	ours := benchProcess(b, dir, "127.11.0.2", shippedProgram, func(kubeconfig string) []string {
		return []string{
			"detector", "--config=" + config, "--kubeconfig=" + kubeconfig, "--node-name=" + node,
			"--config.system-log-monitor=builtin:kernel,builtin:gpu",
		}
	})
	all := map[string]measuredProcess{"npd": theirs, "detector": ours}
	time.Sleep(began) //nolint:forbidigo // what is measured is what a process needs when nothing happens
	for name, p := range all {
		b.ReportMetric(p.kilobytes(b, "VmRSS")/1024, name+"-rss-MB-after-10s")
	}
	time.Sleep(settled) //nolint:forbidigo // see above
	type counted struct {
		cpu, children time.Duration
		requests      int64
	}
	before := map[string]counted{}
	for name, p := range all {
		before[name] = counted{p.cpu(b), p.childrenCPU(b), p.door.requests.Load()}
	}
	ran := ours.runs(b)
	time.Sleep(measured) //nolint:forbidigo // see above
	for name, p := range all {
		minutes := measured.Minutes()
		b.ReportMetric(p.kilobytes(b, "VmRSS")/1024, name+"-rss-MB")
		b.ReportMetric(p.kilobytes(b, "RssAnon")/1024, name+"-anon-MB")
		b.ReportMetric(float64((p.cpu(b)-before[name].cpu).Milliseconds())/minutes, name+"-cpu-ms/min")
		b.ReportMetric(float64((p.childrenCPU(b)-before[name].children).Milliseconds())/minutes, name+"-children-cpu-ms/min")
		b.ReportMetric(float64(p.door.requests.Load()-before[name].requests)/minutes, name+"-requests/min")
	}
	b.ReportMetric(float64(ours.runs(b)-ran)/measured.Minutes(), "detector-runs/min")
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
		b.Logf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
}

// shipped is a folder with node-problem-detector's configuration, whose health-checker is the one
// that was built. It repairs nothing.
func shipped(b *testing.B, dir string) string {
	b.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", upstreamModule).Output()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"kernel-monitor", "readonly-monitor", "health-checker-kubelet"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "config", name+".json"))
		if err != nil {
			b.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), shippedDir, programsDir()+"/")
		write(b, filepath.Join(dir, name+".json"), strings.ReplaceAll(text, "--enable-repair=true", "--enable-repair=false"))
	}
	return dir
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
	// door is its way to the API server; nil: nobody counts its requests.
	door *door
}

// benchProcess starts a program with the arguments that it has with a kubeconfig.
func benchProcess(b *testing.B, dir, address, name string, args func(kubeconfig string) []string) measuredProcess {
	b.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		b.Fatal(err)
	}
	folder := filepath.Join(dir, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		b.Fatal(err)
	}
	d := newDoor(b, folder, address, 0)
	all := append(args(d.kubeconfig), "--address="+address, "--prometheus-address="+address)
	path := filepath.Join(programsDir(), name)
	started, err := process.Start(&exec.Cmd{Path: path, Args: append([]string{path}, all...), Stdout: log, Stderr: log}, log)
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
	return measuredProcess{started.Pid, address, d}
}

// kilobytes returns a figure of the process's memory.
func (p measuredProcess) kilobytes(b testing.TB, name string) float64 {
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
func (p measuredProcess) cpu(b testing.TB) time.Duration {
	b.Helper()
	return p.ticks(b, 11) // utime, stime
}

// childrenCPU is the CPU time of its children that have ended.
func (p measuredProcess) childrenCPU(b testing.TB) time.Duration {
	b.Helper()
	return p.ticks(b, 13) // cutime, cstime
}

// ticks is the sum of two fields of the process's stat, counted after its name.
func (p measuredProcess) ticks(b testing.TB, first int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:])
	var ticks int
	for _, field := range fields[first : first+2] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}

// runs is how many runs of checks the process has counted.
func (p measuredProcess) runs(b testing.TB) (sum int) {
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
