package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
)

// A command that the BMC has no time for is sent again after busyPause, then after
// twice that, and so on, busyRetries times.
const (
	busyRetries = 3
	busyPause   = 100 * time.Millisecond
)

// conn sends one command after the other.
type conn struct {
	transport Transport
	clock     clock.Clock
	// returned is closed when the last command has returned from the transport,
	// which may be long after its caller has given it up.
	returned chan struct{}
}

func newConn(transport Transport, clk clock.Clock) *conn {
	returned := make(chan struct{})
	close(returned)
	return &conn{transport: transport, clock: clk, returned: returned}
}

// close ends the command that is under way, if any, and waits for it.
func (c *conn) close() error {
	err := c.transport.Close()
	<-c.returned
	return err
}

// rest gives up what the transport holds for the next command.
func (c *conn) rest() {
	if rester, ok := c.transport.(Rester); ok {
		rester.Rest()
	}
}

// reaches reports whether commands can be sent to that target.
func (c *conn) reaches(to Target) bool {
	if to == itself {
		return true
	}
	router, ok := c.transport.(Router)
	return ok && router.Reaches(to)
}

// send sends a command to the BMC and returns its answer without the completion code.
// While the BMC is busy it tries again, a few times.
func (c *conn) send(ctx context.Context, cmd command, data ...byte) ([]byte, error) {
	return c.sendTo(ctx, itself, cmd, data...)
}

// sendTo is send for a target that the transport reaches.
func (c *conn) sendTo(ctx context.Context, to Target, cmd command, data ...byte) ([]byte, error) {
	pause := busyPause
	for attempt := 0; ; attempt++ {
		answer, err := c.sendOnce(ctx, to, cmd, data)
		code, isCode := errors.AsType[ipmi.CompletionCode](err)
		if !isCode || !code.Temporary() || attempt == busyRetries {
			return answer, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, fmt.Errorf("%s: %w while %w", cmd.name, err, code)
		}
		pause *= 2
	}
}

func (c *conn) sendOnce(ctx context.Context, to Target, cmd command, data []byte) ([]byte, error) {
	answer, err := c.roundTrip(ctx, to, cmd, data)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ipmi.ErrNoAnswer, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.name, err)
	}
	if len(answer) == 0 {
		return nil, fmt.Errorf("%s: %w: no completion code", cmd.name, ipmi.ErrMalformed)
	}
	if code := ipmi.CompletionCode(answer[0]); code != 0 {
		return nil, fmt.Errorf("%s: %w", cmd.name, code)
	}
	answer = answer[1:]
	if len(answer) < cmd.answer {
		return nil, fmt.Errorf("%s: %w: %d bytes of %d", cmd.name, ipmi.ErrMalformed, len(answer), cmd.answer)
	}
	return answer, nil
}

// roundTrip hands one request to the transport, which must have returned from the one
// before, and waits for the answer until ctx ends.
func (c *conn) roundTrip(ctx context.Context, to Target, cmd command, data []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-c.returned:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w while it has yet to answer an earlier command: %w", ipmi.ErrNoAnswer, ctx.Err())
	}

	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	returned := make(chan struct{})
	c.returned = returned
	go func() {
		defer close(returned)
		data, err := c.sendRecv(ctx, to, cmd, data)
		answers <- answer{data, err}
	}()

	select {
	case got := <-answers:
		return got.data, got.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ipmi.ErrNoAnswer, ctx.Err())
	}
}

func (c *conn) sendRecv(ctx context.Context, to Target, cmd command, data []byte) ([]byte, error) {
	if router, ok := c.transport.(Router); ok && to != itself {
		return router.SendRecvTo(ctx, to, cmd.netfn, cmd.number, data)
	}
	return c.transport.SendRecv(ctx, cmd.netfn, cmd.number, data)
}

func (c *conn) pause(ctx context.Context, d time.Duration) error {
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
