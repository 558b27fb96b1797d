//go:build integration

package npd

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
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
	return func() { s.forward(address, direct.Host) }
}

// forward lets connections to address go on to target until the test ends.
func (s *scene) forward(address, target string) {
	s.t.Helper()
	listener, err := net.Listen("tcp", address)
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(s.t.Context())
	var forwarding sync.WaitGroup
	pipe := func(to, from net.Conn) {
		defer context.AfterFunc(ctx, func() { _ = from.Close() })()
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	forwarding.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			forwarding.Go(func() { pipe(server, client) })
			forwarding.Go(func() { pipe(client, server) })
		}
	})
	s.t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		forwarding.Wait()
	})
}
