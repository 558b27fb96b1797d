package lan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
)

const (
	// maxAnswer is how long a BMC is given for one answer; it is asked again meanwhile.
	maxAnswer = 10 * time.Second
	// resend is how long after a request it is sent again, at first. Then it takes longer
	// each time: a BMC that is slow is not flooded.
	resend = time.Second
	// maxPacket is more than a BMC sends.
	maxPacket = 4096
)

// transport sends packets to a BMC and receives what comes from its address.
type transport struct {
	connection net.Conn
	buffer     [maxPacket]byte
}

func dial(ctx context.Context, address string) (*transport, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ipmi.ErrNoAnswer, err)
	}
	return &transport{connection: power.Steady(connection)}, nil
}

// exchange sends packets, each made by request, until accept has taken a packet that has
// arrived. accept returns errForeign for one that is to be passed over. The error wraps
// ipmi.ErrNoAnswer if none was taken in time, and is otherwise that of accept.
func (t *transport) exchange(ctx context.Context, request func() []byte, accept func(p []byte) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxAnswer, fmt.Errorf("%w within %s", ipmi.ErrNoAnswer, maxAnswer))
	defer cancel()
	// A deadline in the past ends a read that is under way.
	stop := context.AfterFunc(ctx, func() { _ = t.connection.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for wait := resend; ; wait += resend {
		if ctx.Err() != nil {
			return noAnswer(ctx)
		}
		if _, err := t.connection.Write(request()); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", ipmi.ErrNoAnswer, err)
		}
		if err := t.receive(ctx, wait, accept); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// receive is exchange for what arrives within a time.
func (t *transport) receive(ctx context.Context, within time.Duration, accept func(p []byte) error) error {
	if err := t.connection.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	for ctx.Err() == nil { // it may have ended before that deadline was set
		n, err := t.connection.Read(t.buffer[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", ipmi.ErrNoAnswer, err)
		}
		if err := accept(t.buffer[:n]); !errors.Is(err, errForeign) {
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// noAnswer is the error of an exchange whose context has ended.
func noAnswer(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ipmi.ErrNoAnswer, cause)
	}
	return cause
}
