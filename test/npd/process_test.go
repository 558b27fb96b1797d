//go:build integration

package npd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/test/process"
)

// stopTime is how long a program may take to end when it is asked to.
const stopTime = 5 * time.Second

// running is a program that runs.
type running struct {
	*process.Process
	scene   *scene
	started time.Time
	logPath string
}

// start starts the scene's program with the scene's monitors. It ends with the
// test; the detector has to end by itself then, in time and without an error.
func (s *scene) start(flags ...string) *running {
	s.t.Helper()
	args := append(s.program.args(s),
		"--hostname-override="+s.node,
		"--apiserver-override=https://127.0.0.1?inClusterConfig=false&auth="+s.kubeconfig,
		"--address="+s.address, "--prometheus-address="+s.address,
		"--k8s-exporter-heartbeat-period=1s",
	)
	args = append(append(args, s.monitors...), flags...)
	s.processes++
	p := &running{
		scene: s, started: time.Now(),
		logPath: filepath.Join(s.dir, fmt.Sprintf("program-%d.log", s.processes)),
	}
	log, err := os.Create(p.logPath)
	s.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(s.program.path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append([]string{
		"PATH=" + s.path("bin") + ":/usr/bin:/bin", "HOME=" + s.dir, sceneEnv + "=" + s.dir,
	}, s.env...)
	p.Process, err = process.Start(cmd, log)
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(p.end)
	return p
}

// end ends the process at the end of the test.
func (p *running) end() {
	t := p.scene.t
	if !p.HasExited() && !p.scene.program.upstream {
		if took, ok := p.terminate(); !ok || p.Err != nil {
			t.Errorf("the program has ended %t after %s with %v, want that within %s without an error", ok, took, p.Err, stopTime)
		}
	}
	p.Kill()
	if t.Failed() {
		t.Logf("the log of the program:\n%s", p.log())
	}
}

// terminate asks the process to end and returns whether it has done so in time.
func (p *running) terminate() (took time.Duration, ok bool) {
	asked := time.Now()
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.Exited:
		return time.Since(asked), true
	case <-time.After(stopTime):
		return time.Since(asked), false
	}
}

// log returns what the process has logged.
func (p *running) log() string {
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// get returns the answer to a GET of a path at one of the program's ports.
func (p *running) get(ctx context.Context, port, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.scene.address+":"+port+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), errors.Join(err, response.Body.Close())
}

// healthz returns the status of /healthz; 0 if nobody answers.
func (p *running) healthz() int {
	status, _, _ := p.get(p.scene.t.Context(), healthPort, "/healthz")
	return status
}

// awaitUp waits until /healthz is answered with 200.
func (p *running) awaitUp() {
	s := p.scene
	s.t.Helper()
	s.Eventually(func() int {
		if p.HasExited() {
			StopTrying("the program has ended").Now()
		}
		return p.healthz()
	}).Should(Equal(http.StatusOK))
}

// metric returns the value of a metric, as it is written with its labels.
func (p *running) metric(name string) (string, error) {
	_, body, err := p.get(p.scene.t.Context(), metricsPort, "/metrics")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return value, nil
		}
	}
	return "", fmt.Errorf("there is no metric %s", name)
}

// lineWith returns the first line of text that holds a part.
func lineWith(text, part string) (line string, found bool) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line), true
		}
	}
	return "", false
}
