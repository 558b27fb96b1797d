//go:build integration

package command

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// relay is a socket behind which is the message bus.
type relay struct {
	bus  string        // the socket of the message bus
	late time.Duration // by which its answers come later
	// cutAt is the text in what is sent to the bus after which all connections are ended.
	cutAt string

	all      sync.WaitGroup
	mu       sync.Mutex
	accepted int                        // connections, also those that have ended
	open     map[*net.UnixConn]struct{} // both ends of each
}

// relayed lets new remedies reach systemd through a relay, until the test ends.
func (s *scene) relayed(r *relay) {
	s.Helper()
	path := filepath.Join(s.TempDir(), "bus")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		s.Fatal(err)
	}
	r.bus, r.open = s.opts.Dialer.Bus, map[*net.UnixConn]struct{}{}
	r.all.Go(func() { r.accept(listener) })
	s.Cleanup(func() {
		_ = listener.Close()
		r.cut()
		r.all.Wait()
	})
	s.opts.Dialer.Bus = path
}

func (r *relay) accept(listener *net.UnixListener) {
	for {
		client, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		server, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.bus, Net: "unix"})
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.accepted++
		r.open[client], r.open[server] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.all.Go(func() { r.pass(client, server, r.late, r.cutAt) })
		r.all.Go(func() { r.pass(server, client, 0, "") })
	}
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Close()
	}
}

// connections returns how many there have been, and how many there are.
func (r *relay) connections() (accepted, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, (len(r.open) + 1) / 2
}

// pass passes on what comes from one end, with the files.
func (r *relay) pass(from, to *net.UnixConn, late time.Duration, cutAt string) {
	defer func() {
		_ = errors.Join(from.Close(), to.Close())
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, from)
	}()
	buf, files := make([]byte, 1<<20), make([]byte, 1024)
	for {
		n, filesN, _, _, err := from.ReadMsgUnix(buf, files)
		if err != nil {
			return
		}
		text := string(buf[:n])
		if late > 0 && (strings.Contains(text, "systemd1") || n > 200) {
			<-time.After(late)
		}
		_, _, err = to.WriteMsgUnix(buf[:n], files[:filesN], nil)
		messages, _ := unix.ParseSocketControlMessage(files[:filesN])
		for _, message := range messages {
			sent, _ := unix.ParseUnixRights(&message)
			for _, fd := range sent {
				_ = unix.Close(fd)
			}
		}
		if cutAt != "" && strings.Contains(text, cutAt) {
			r.cut()
		}
		if err != nil {
			return
		}
	}
}
