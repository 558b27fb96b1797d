package node

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/test/relay"
)

const (
	// apiServerIP is the cluster IP of the service "kubernetes".
	apiServerIP = "10.0.0.1"
	nodeIP      = "10.1.0.1"
)

// DialContext connects to an address inside, whose host is an IP address: the kubelet
// at 127.0.0.1:10250, or a pod.
func (n *Node) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.inNetwork(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// ListenPacket listens at an address inside, as of the BMC or the nameserver that the test plays.
func (n *Node) ListenPacket(ctx context.Context, network, address string) (conn net.PacketConn, err error) {
	err = n.inNetwork(func() error {
		conn, err = (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		return err
	})
	return conn, err
}

// inNetwork calls do on a thread that is in the node's network. Sockets stay in the
// one that they were made in.
func (n *Node) inNetwork(do func() error) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.PID()))
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }() // was only read
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering the network of node %s: %w", n.Name, err)
			return
		}
		done <- do()
	}()
	return <-done
}

// forwardAPIServer lets the inside reach the API server where pods look for it and
// where kubeconfigs of the outside say, and the API server reach the kubelet.
func (n *Node) forwardAPIServer(ctx context.Context) error {
	server, err := url.Parse(n.options.Cluster.Config.Host)
	if err != nil {
		return err
	}
	n.options.Cluster.ReachKubelet(n.Name, n.DialContext)
	for _, address := range []string{apiServerIP + ":443", server.Host} {
		var listener net.Listener
		if err := n.inNetwork(func() (err error) {
			listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			return err
		}); err != nil {
			return err
		}
		n.relays = append(n.relays, relay.Start(ctx, listener, relay.To(server.Host)))
	}
	return nil
}
