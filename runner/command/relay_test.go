//go:build integration

package command

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/relay"
)

// slowRelay is a socket behind which is that of systemd.
type slowRelay struct {
	server string        // the socket of systemd
	late   time.Duration // by which its answers come later
	// cutAt is the text in what is sent to systemd after which all connections are ended.
	cutAt string
	// answering is called before anything that systemd says is passed on.
	answering func()

	all      sync.WaitGroup
	mu       sync.Mutex
	accepted int                        // connections, also those that have ended
	open     map[*net.UnixConn]struct{} // both ends of each
}

// relayed lets new remedies reach systemd through a relay, until the test ends.
func (s *scene) relayed(r *slowRelay) {
	s.Helper()
	path := filepath.Join(s.TempDir(), "private")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		s.Fatal(err)
	}
	r.server, r.open = s.opts.Dialer.Private, map[*net.UnixConn]struct{}{}
	r.all.Go(func() { r.accept(listener) })
	s.Cleanup(func() {
		_ = listener.Close()
		r.cut()
		r.all.Wait()
	})
	s.opts.Dialer = systemd.Dialer{Private: path}
}

func (r *slowRelay) accept(listener *net.UnixListener) {
	for {
		client, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		server, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.server, Net: "unix"})
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.accepted++
		r.open[client], r.open[server] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.all.Go(func() { r.pass(client, server, r.delay, r.cutAt) })
		r.all.Go(func() {
			r.pass(server, client, func([]byte) {
				if r.answering != nil {
					r.answering()
				}
			}, "")
		})
	}
}

// cut ends all connections.
func (r *slowRelay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Close()
	}
}

// connections returns how many there have been, and how many there are.
func (r *slowRelay) connections() (accepted, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, (len(r.open) + 1) / 2
}

// delay is called before something is sent to systemd.
func (r *slowRelay) delay(read []byte) {
	if r.late > 0 && !strings.HasSuffix(string(read), "\r\n") { // after the authentication
		<-time.After(r.late)
	}
}

// pass passes on what comes from one end, with the files.
func (r *slowRelay) pass(from, to *net.UnixConn, before func(read []byte), cutAt string) {
	defer func() {
		_ = errors.Join(from.Close(), to.Close())
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, from)
	}()
	buf := make([]byte, 1<<20)
	for {
		read, err := relay.Pass(to, from, buf, before)
		if cutAt != "" && strings.Contains(string(read), cutAt) {
			r.cut()
		}
		if err != nil {
			return
		}
	}
}
