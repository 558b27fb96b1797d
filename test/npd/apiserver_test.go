//go:build integration

package npd

import (
	"net"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestAnAPIServerThatRefusesConnectionsAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		stored := sinceAnHour("HardwareFailure")
		s.createNode(stored)
		history := s.watch()
		s.tick()
		s.customPlugins(plugins("5s", "3s", s.rule("HardwareFailure", `sleep 2; echo DIMM A1; exit 1`)))
		open := s.closeAPIServer()
		p := s.start("--apiserver-wait-timeout=5m", "--apiserver-wait-interval=1s")
		s.ticks(3)
		gaveUp := finding{"it gives up long before --apiserver-wait-timeout", false, "it still waits"}
		if line, found := lineWith(p.log(), "kube-apiserver did not become ready"); found {
			gaveUp.seen, gaveUp.evidence = true, line
		}
		open()
		s.confirmed("HardwareFailure", corev1.ConditionTrue, p.started)
		// A status that has changed has a transition that has moved, too.
		return []finding{gaveUp, history.moved(stored)}
	})
}

// closeAPIServer makes the scene's program look for the API server where nobody
// listens until open is called.
func (s *scene) closeAPIServer() (open func()) {
	s.t.Helper()
	direct, err := url.Parse(clustertest.Shared(s.t).Config.Host)
	s.Expect(err).NotTo(HaveOccurred())
	address := net.JoinHostPort(s.address, "6443")
	config, err := clientcmd.LoadFromFile(s.kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.TLSServerName = "https://"+address, direct.Hostname()
	}
	s.kubeconfig = s.path("kubeconfig")
	s.Expect(clientcmd.WriteToFile(*config, s.kubeconfig)).To(Succeed())
	return func() { clustertest.Forward(s.t, address, direct.Host) }
}
