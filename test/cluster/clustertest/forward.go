package clustertest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Forward lets connections to address go on to target until the test ends.
func Forward(t testing.TB, address, target string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
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
			server, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			forwarding.Go(func() { pipe(server, client) })
			forwarding.Go(func() { pipe(client, server) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		forwarding.Wait()
	})
}
