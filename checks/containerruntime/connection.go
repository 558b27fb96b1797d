package containerruntime

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/utils/clock"
)

// maxMessageSize is the limit for an answer in bytes, that of the kubelet.
const maxMessageSize = 16 << 20

// maxAttempt is how long one attempt to connect is waited for before the next
// run makes a new one.
//
// To a process that is stopped, the kernel completes connections by itself and
// queues them, but nobody answers. The queued one is kept, over several runs:
// it is answered as soon as the process goes on, and a new connection on every
// run would fill the queue that the kubelet needs, too.
const maxAttempt = time.Minute

// connection is the connection to the runtime, replaced when it has failed.
//
// It leaves nothing to gRPC's own reconnecting, whose backoff would fail calls
// with errors of the past: a run finds a connection that works, one that is
// being established, or none and makes a new one at once. So the first run after
// the runtime has come back succeeds.
type connection struct {
	clock clock.PassiveClock

	conn   *grpc.ClientConn // nil: to be made
	since  time.Time        // when conn was made
	dialer *dialer          // that of the latest conn
}

// to returns a connection to the socket at path that has not failed.
func (c *connection) to(path string) (*grpc.ClientConn, error) {
	if c.conn != nil && (c.dialer.path != path || c.stale()) {
		c.close()
	}
	if c.conn == nil {
		dialer := &dialer{path: path}
		conn, err := grpc.NewClient("passthrough:///localhost", // the dialer knows better
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(dialer.dial),
			grpc.WithDisableServiceConfig(),
			grpc.WithIdleTimeout(0),
			grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10), // a few small calls
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1, MaxDelay: 100 * time.Millisecond},
				MinConnectTimeout: 2 * maxAttempt,
			}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize), grpc.ForceCodecV2(newCodec())),
		)
		if err != nil {
			return nil, err
		}
		c.conn, c.since, c.dialer = conn, c.clock.Now(), dialer
	}
	return c.conn, nil
}

func (c *connection) stale() bool {
	switch c.conn.GetState() {
	case connectivity.Ready, connectivity.Idle:
		return false
	case connectivity.Connecting:
		return c.clock.Since(c.since) > maxAttempt
	default:
		return true
	}
}

// dialError returns why the last attempt to connect has failed; nil if it has
// succeeded or is not over.
func (c *connection) dialError() error {
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	return c.dialer.err
}

// suspect drops an established connection on which a call was not answered, so
// that the next run does not depend on it. One that is still being established
// is kept.
func (c *connection) suspect() {
	if c.conn != nil && c.conn.GetState() != connectivity.Connecting {
		c.close()
	}
}

// close drops the connection; the next call makes a new one.
func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close() // only ever fails if closed before
		c.conn = nil
	}
}

// dialer connects for one gRPC connection. It keeps the error of its last
// attempt, since gRPC hands only the text on.
type dialer struct {
	path string
	mu   sync.Mutex
	err  error
}

func (d *dialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", d.path)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return conn, err
}
