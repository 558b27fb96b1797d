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

// crowd keeps the connections of a server at maxConnections. Both lists begin with what
// has been so for longest.
type crowd struct {
	mu sync.Mutex
	// waiting have no request under way, busy have.
	waiting, busy []net.Conn
}

// changed is a server's ConnState. A connection is new, and so waiting, until all of
// its first request's header was read.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := func(other net.Conn) bool { return other == conn }
	c.waiting, c.busy = slices.DeleteFunc(c.waiting, is), slices.DeleteFunc(c.busy, is)
	switch state {
	case http.StateNew, http.StateIdle:
		c.waiting = append(c.waiting, conn)
	case http.StateActive:
		c.busy = append(c.busy, conn)
	}
	if len(c.waiting)+len(c.busy) <= maxConnections {
		return
	}
	// An answer takes moments. Who keeps all connections busy does not read theirs.
	from := &c.waiting
	if len(c.waiting) == 1 && len(c.busy) > 0 {
		from = &c.busy
	}
	_ = (*from)[0].Close() // the server notices and forgets it
	*from = slices.Delete(*from, 0, 1)
}
