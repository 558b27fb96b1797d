//go:build integration

package integration

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/process"
)

// The real program, leader election included, is killed while a command runs. What becomes
// of a controller that dies elsewhere is told in test/sim.
func TestAKilledControllerIsTakenOverByTheNext(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "nodemend")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/nodemend").CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	s := newSceneApart(t, "killed", 1, "1")
	s.newHeldNode()
	start := s.program(binary)
	first := start()
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(1))
	first.Kill()
	start()
	s.remove("hold")
	s.expectHealedOnce()
}

// program returns what starts the real controller, which sees only this scene and
// has a Lease of its own.
func (s *scene) program(binary string) (start func() *process.Process) {
	transport, err := rest.TransportFor(s.cfg)
	s.Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(s.cfg.Host)
	s.Expect(err).NotTo(HaveOccurred())
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	s.t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	kubeconfig := s.path("kubeconfig")
	s.Expect(cluster.WriteKubeconfig(kubeconfig, &rest.Config{Host: proxy.URL})).To(Succeed())
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}) // of the Lease
	return func() *process.Process {
		log, err := os.CreateTemp(s.dir, "log")
		s.Expect(err).NotTo(HaveOccurred())
		cmd := exec.CommandContext(context.WithoutCancel(s.ctx), binary, "controller",
			"--kubeconfig="+kubeconfig, "--leader-election-namespace="+s.name)
		cmd.Stderr = log
		p, err := process.Start(cmd, log)
		s.Expect(err).NotTo(HaveOccurred())
		s.t.Cleanup(func() {
			p.Kill()
			if text, err := process.Tail(log.Name(), 16<<10); err == nil && s.t.Failed() {
				s.t.Log(text)
			}
		})
		return p
	}
}
