package detector

import (
	"context"
	"io"
	"net"
	"sync"
)

// fault plays a container runtime or a kubelet that does not do what it is asked to.
type fault struct {
	net.Listener
	serving sync.WaitGroup

	lock            sync.Mutex
	silent, stopped bool
	held            []net.Conn
}

// listen serves each connection by refuse, until it falls silent.
func listen(ctx context.Context, network, address string, refuse func(io.ReadWriter) error) (*fault, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	f := &fault{Listener: listener}
	f.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.hold(conn)
			f.serving.Go(func() {
				_ = refuse(struct { // it ends when the connection does
					io.Reader
					io.Writer
				}{conn, writer{f, conn}})
			})
		}
	})
	return f, nil
}

// writer writes nothing of a fault that has fallen silent.
type writer struct {
	fault *fault
	conn  net.Conn
}

func (w writer) Write(p []byte) (int, error) {
	w.fault.lock.Lock()
	defer w.fault.lock.Unlock()
	if w.fault.silent {
		return len(p), nil
	}
	return w.conn.Write(p)
}

func (f *fault) hold(conn net.Conn) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.held = append(f.held, conn)
	if f.stopped {
		_ = conn.Close() // nothing was written
	}
}

// fallSilent has nothing answered any more.
func (f *fault) fallSilent() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.silent = true
}

// hangUp closes all connections.
func (f *fault) hangUp() {
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, conn := range f.held {
		_ = conn.Close() // nobody reads what was written
	}
	f.held = nil
}

// stop closes the listener and all connections.
func (f *fault) stop() {
	_ = f.Close() // which can't fail but the second time
	f.lock.Lock()
	f.stopped = true
	f.lock.Unlock()
	f.hangUp()
	f.serving.Wait()
}

const (
	frameHeader = 9  // RFC 9113, section 4.1: length, type, flags, stream
	preface     = 24 // section 3.4
	// settings are empty ones, and that those of the client are known (section 6.5).
	settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x00\x04\x01\x00\x00\x00\x00"
	// Types of frames: with the one a stream begins, with the other it is cut off.
	headers, rstStream = 1, 3
	// cancelled is why (section 7).
	cancelled = "\x00\x00\x00\x08"
	// refusal is the header of an answer of gRPC that is an error, code DeadlineExceeded (RFC 7541).
	refusal = "\x88" + "\x0f\x10\x10application/grpc" + "\x00\x0bgrpc-status\x014" + "\x00\x0cgrpc-message\x09rehearsal"
)

// refuseCalls answers each call of gRPC with an error, or by a reset of its stream, as servers do at
// its deadline: the one as often as the other.
func refuseCalls(conn io.ReadWriter) error {
	if _, err := io.CopyN(io.Discard, conn, preface); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, settings); err != nil {
		return err
	}
	for reset := false; ; {
		var frame [frameHeader]byte
		if _, err := io.ReadFull(conn, frame[:]); err != nil {
			return err
		}
		length := int64(frame[0])<<16 | int64(frame[1])<<8 | int64(frame[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return err
		}
		if frame[3] != headers {
			continue
		}
		const endOfStreamAndHeaders = 0x5
		answer, payload := append([]byte{0, 0, byte(len(refusal)), headers, endOfStreamAndHeaders}, frame[5:]...), refusal
		if reset {
			answer[2], answer[3], answer[4], payload = byte(len(cancelled)), rstStream, 0, cancelled
		}
		reset = !reset
		if _, err := conn.Write(append(answer, payload...)); err != nil {
			return err
		}
	}
}

// refuseRequest answers a request of HTTP with an error.
func refuseRequest(conn io.ReadWriter) error {
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 9\r\n\r\nrehearsal"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn) // the next one is not answered
	return err
}
