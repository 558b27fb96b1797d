//go:build integration

package monitoring

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/loopback"
	"github.com/nodemend/nodemend/test/process"
)

const (
	// patience bounds every wait: only what hangs needs it.
	patience = 5 * time.Minute
	// grace is how long a program may take to end.
	grace = 10 * time.Second
	// nodes is how many there are; the first has a detector and a runner.
	nodes = 6
)

// scene is a cluster with all roles of the real program, and a Prometheus that scrapes
// them.
type scene struct {
	*WithT
	t          *testing.T
	dir        string
	kubeconfig string
	replaced   *strings.Replacer // in the files of testdata
	prometheus prometheus
	began      time.Time // when all was scraped
}

// newScene starts everything, and waits until all of it is scraped.
func newScene(t *testing.T) *scene {
	t.Helper()
	program := installed(t, "prometheus")
	c := clustertest.Shared(t)
	s := &scene{WithT: NewWithT(t), t: t, dir: t.TempDir(), kubeconfig: c.Kubeconfig}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)

	rules, err := filepath.Abs(rulesFile)
	s.Expect(err).NotTo(HaveOccurred())
	address := map[string]string{}
	places := []string{"@DIR@", s.dir, "@RULES@", rules}
	for _, who := range []string{"CONTROLLER", "STANDBY", "DETECTOR", "RUNNER", "PROMETHEUS"} {
		address[who] = loopback.Address(t)
		places = append(places, "@"+who+"@", address[who])
	}
	s.replaced = strings.NewReplacer(places...)

	_, err = c.AddNodes(t.Context(), nodes, "node", nil)
	s.Expect(err).NotTo(HaveOccurred())
	cri, err := criserver.Start(t.Context(), s.path("cri.sock"), criserver.Options{HangFile: s.path("hang")})
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(cri.Stop)
	s.kubectl("apply", "-f", s.file("objects.yaml"))

	nodemend := s.build()
	proc, err := process.OwnProc(s.dir)
	s.Expect(err).NotTo(HaveOccurred())
	_, detectorPort, err := net.SplitHostPort(address["DETECTOR"])
	s.Expect(err).NotTo(HaveOccurred())
	for name, args := range map[string][]string{
		"controller": {"controller", "--leader-election-namespace=default", "--metrics-address=" + address["CONTROLLER"]},
		"standby":    {"controller", "--leader-election-namespace=default", "--metrics-address=" + address["STANDBY"]},
		"detector": {"detector", "--node-name=node-0", "--port=0", "--prometheus-port=" + detectorPort, "--config=" + s.file("detector.yaml"),
			"--config.custom-plugin-monitor=" + s.file("incurable.json")},
		"runner": {"runner", "--node-name=node-0", "--execution=Direct", "--host-proc=" + proc, "--run-dir=" + s.path("runner"),
			"--metrics-address=" + address["RUNNER"]},
	} {
		s.start(name, nodemend, append(args, "--kubeconfig="+s.kubeconfig)...)
	}
	s.start("prometheus", program, "--config.file="+s.file("prometheus.yaml"), "--storage.tsdb.path="+s.path("tsdb"),
		"--web.listen-address="+address["PROMETHEUS"])
	s.prometheus = prometheus{"http://" + address["PROMETHEUS"]}
	s.Eventually(func() error {
		_, err := s.prometheus.query(t.Context(), "up", time.Now())
		return err
	}).Should(Succeed())
	s.eventually("sum(up) == 4")
	s.began = time.Now()
	return s
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// file writes a file of testdata with its places filled in.
func (s *scene) file(name string) string {
	text := s.replaced.Replace(string(read(s.t, "testdata/"+name)))
	s.Expect(os.WriteFile(s.path(name), []byte(text), 0o600)).To(Succeed())
	return s.path(name)
}

// build builds the program and returns its path.
func (s *scene) build() string {
	cmd := exec.CommandContext(s.t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", s.path("nodemend"), "../../cmd/nodemend")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("building nodemend: %v: %s", err, output)
	}
	return s.path("nodemend")
}

// start runs a program until the end of the test, which it may not end by itself.
func (s *scene) start(name, program string, args ...string) {
	logPath := s.path(name + ".log")
	log, err := os.Create(logPath)
	s.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := process.Start(cmd, log)
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() {
		ended := p.HasExited()
		if _, err := p.StopGroup(grace); err != nil {
			s.t.Error(err)
		}
		if ended || s.t.Failed() {
			tail, _ := process.Tail(logPath, 4000)
			s.t.Errorf("the log of the %s ends with:\n%s", name, tail)
		}
	})
}

func (s *scene) kubectl(args ...string) {
	s.t.Helper()
	program, err := cluster.Program("kubectl")
	s.Expect(err).NotTo(HaveOccurred())
	output, err := exec.CommandContext(s.t.Context(), program, append(args, "--kubeconfig="+s.kubeconfig)...).CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), output)
}

// report plays a detector that reports a condition of a node.
func (s *scene) report(node, condition, status string) {
	s.t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []map[string]string{{
		"type": condition, "status": status, "reason": "Test", "message": "reported by a test", "lastHeartbeatTime": now, "lastTransitionTime": now,
	}}}})
	s.Expect(err).NotTo(HaveOccurred())
	s.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "--patch="+string(patch))
}

// fault makes the container runtime of the first node hang, until the policy's second
// step makes it go on, and waits for the end of it.
func (s *scene) fault() {
	s.t.Helper()
	const recovered = `sum(nodemend_remediations_ended_total{policy="container-runtime",outcome="Recovered"})`
	before := s.value(recovered)
	s.Expect(os.WriteFile(s.path("hang"), nil, 0o600)).To(Succeed())
	s.Eventually(func() float64 { return s.value(recovered) }).Should(BeNumerically(">", before))
}

// value returns that of an expression with one, 0 if it has none.
func (s *scene) value(expr string) float64 {
	s.t.Helper()
	samples, err := s.prometheus.query(s.t.Context(), expr, time.Now())
	s.Expect(err).NotTo(HaveOccurred())
	if len(samples) == 0 {
		return 0
	}
	s.Expect(samples).To(HaveLen(1))
	return samples[0].last()
}

// eventually waits until the expression has a value.
func (s *scene) eventually(expr string) {
	s.t.Helper()
	s.Eventually(func() ([]series, error) { return s.prometheus.query(s.t.Context(), expr, time.Now()) }).ShouldNot(BeEmpty(), expr)
}

// play has happen what the metrics are about: a node that is healed, one that nothing
// helps, one that waits for a person, one in maintenance, and a second writer.
func (s *scene) play() {
	s.t.Helper()
	s.eventually(`nodemend_node_conditions{condition="ContainerRuntimeUnhealthy",status="False"}`)
	s.Expect(os.WriteFile(s.path("incurable"), nil, 0o600)).To(Succeed())
	s.eventually(`nodemend_remediations_open{policy="incurable",state="` + v1alpha1.ReasonExhausted + `"}`)
	s.report("node-1", v1alpha1.NodeFenceable, "True") // there is no remote runner
	s.eventually(`nodemend_node_fenceable{node_name="node-1"}`)
	s.report("node-1", "KernelDeadlock", "True")
	s.eventually(`nodemend_remediations_blocked{policy="careful",reason="ApprovalRequired"}`)
	s.Eventually(func() float64 { // the detector may write again before it has noticed
		s.report("node-0", "ContainerRuntimeUnhealthy", "False")
		return s.value(`nodemend_detector_foreign_writes_total{condition="ContainerRuntimeUnhealthy"}`)
	}).Should(BeNumerically(">", 0))
	s.fault()
}
