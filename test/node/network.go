package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
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
// where kubeconfigs of the outside say.
func (n *Node) forwardAPIServer(ctx context.Context) error {
	server, err := url.Parse(n.options.Cluster.Config.Host)
	if err != nil {
		return err
	}
	for _, address := range []string{apiServerIP + ":443", server.Host} {
		var listener net.Listener
		if err := n.inNetwork(func() (err error) {
			listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			return err
		}); err != nil {
			return err
		}
		n.proxies = append(n.proxies, forward(context.WithoutCancel(ctx), listener, server.Host))
	}
	return nil
}

// proxy forwards connections until it is stopped.
type proxy struct {
	listener net.Listener
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func forward(ctx context.Context, listener net.Listener, target string) *proxy {
	ctx, cancel := context.WithCancel(ctx)
	p := &proxy{listener: listener, cancel: cancel}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				p.running.Go(func() { connect(ctx, client, target) })
			}
		}
	})
	return p
}

// connect joins a connection with one to target until either ends.
func connect(ctx context.Context, client net.Conn, target string) {
	defer func() { _ = client.Close() }() // at worst it is closed already
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return // the client sees that its connection is closed
	}
	defer func() { _ = server.Close() }() // the same
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var copying sync.WaitGroup
	for _, c := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			_, _ = io.Copy(c[0], c[1]) // its end is all that matters
			cancel()
		})
	}
	<-ctx.Done()
	_, _ = client.Close(), server.Close() // ends what is still being copied
	copying.Wait()
}

func (p *proxy) stop() {
	p.cancel()
	_ = p.listener.Close() // at worst it is closed already
	p.running.Wait()
}
