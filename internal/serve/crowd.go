package serve

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections bounds the memory and the files that whoever reaches a server can
// make the role hold.
const maxConnections = 32

// crowd keeps the connections of a server at maxConnections.
type crowd struct {
	mu sync.Mutex
	// waiting have no request under way; the first has been so for longest.
	waiting []net.Conn
	busy    map[net.Conn]struct{}
}

func newCrowd() *crowd { return &crowd{busy: map[net.Conn]struct{}{}} }

// changed is a server's ConnState. A connection is new, and so waiting, until all of
// its first request's header was read.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, conn)
	c.waiting = slices.DeleteFunc(c.waiting, func(other net.Conn) bool { return other == conn })
	switch state {
	case http.StateNew, http.StateIdle:
		c.waiting = append(c.waiting, conn)
	case http.StateActive:
		c.busy[conn] = struct{}{}
	}
	if len(c.waiting) > 0 && len(c.waiting)+len(c.busy) > maxConnections {
		_ = c.waiting[0].Close() // the server notices and forgets it
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
}
