// Package relay joins connections, for tests that put themselves between a client and
// its server.
package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Relay takes connections on a listener and joins each with one of its own. Stop it.
type Relay struct {
	listener net.Listener
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// Dial makes the connection to join with a client's, of which it may read what says
// whereto.
type Dial func(ctx context.Context, client net.Conn) (net.Conn, error)

// To returns a Dial that connects to an address.
func To(address string) Dial {
	return func(ctx context.Context, _ net.Conn) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
}

// ToSocket returns a Dial that connects to a unix socket.
func ToSocket(path string) Dial {
	return func(ctx context.Context, _ net.Conn) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
}

// Start joins each connection that the listener takes with one that dial makes. A client
// whose connection can't be made sees its own closed. It goes on when ctx ends.
func Start(ctx context.Context, listener net.Listener, dial Dial) *Relay {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Relay{listener: listener, cancel: cancel}
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			r.running.Go(func() { serve(ctx, client, dial) })
		}
	})
	return r
}

// Stop ends all connections, and returns when nothing is under way.
func (r *Relay) Stop() {
	r.cancel()
	_ = r.listener.Close() // at worst it is closed already
	r.running.Wait()
}

func serve(ctx context.Context, client net.Conn, dial Dial) {
	defer context.AfterFunc(ctx, func() { _ = client.Close() })() // dial may read of it
	server, err := dial(ctx, client)
	if err != nil {
		_ = client.Close() // it is all that can be told
		return
	}
	join(ctx, client, server)
}

// join hands on what either connection says to the other until one of them ends or ctx
// does, and closes both.
func join(ctx context.Context, a, b net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var copying sync.WaitGroup
	for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
		copying.Go(func() {
			defer cancel()
			handOn(c[0], c[1])
		})
	}
	<-ctx.Done()
	_, _ = a.Close(), b.Close() // ends what is still being copied
	copying.Wait()
}

// handOn hands on what one connection says to another until one of them ends.
func handOn(to, from net.Conn) {
	a, aIsUnix := to.(*net.UnixConn)
	b, bIsUnix := from.(*net.UnixConn)
	if !aIsUnix || !bIsUnix {
		_, _ = io.Copy(to, from) // its end is all that matters
		return
	}
	buf := make([]byte, 64<<10)
	for {
		if _, err := Pass(a, b, buf, func([]byte) {}); err != nil {
			return
		}
	}
}
