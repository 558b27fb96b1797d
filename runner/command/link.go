package command

import (
	"context"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/internal/systemd"
)

const (
	// answerTime is how long a healthy systemd may take to answer.
	answerTime = 5 * time.Second
	// lastAnswer is how long after its deadline a command's systemd is still asked.
	lastAnswer = 8 * time.Second
)

// link is a connection to systemd that is made again after it has failed. It is used
// by one goroutine.
type link struct {
	dialer systemd.Dialer
	unit   string
	conn   *systemd.Conn
	// ended gets a value when the unit's processes have ended, and is closed when the
	// connection has; nil as long as systemd was not asked. It may miss some.
	ended <-chan struct{}
	// deadline is when the command must have ended; zero if there is none.
	deadline time.Time
}

func newLink(dialer systemd.Dialer, unit string) *link {
	return &link{dialer: dialer, unit: unit}
}

// dial connects if there is no connection.
func (l *link) dial(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn, err := l.dialer.Dial(ctx)
	if err == nil {
		l.conn = conn
	}
	return err
}

// connected reports whether there is a connection that is not known to be broken.
func (l *link) connected() bool { return l.conn != nil && l.conn.Connected() }

// close ends the connection. To close one whose systemd hangs can take as long as
// that does, which nobody waits for.
func (l *link) close() {
	if l.conn != nil {
		go l.conn.Close()
		l.conn, l.ended = nil, nil
	}
}

// ask calls systemd, which has answerTime to answer, and not more than lastAnswer after
// the deadline. After any other error than systemd's own no, the next call connects
// again.
func ask[T any](ctx context.Context, l *link, call func(context.Context, *systemd.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var got answer
	if !l.deadline.IsZero() {
		var enough context.CancelFunc
		ctx, enough = context.WithDeadline(ctx, l.deadline.Add(lastAnswer))
		defer enough()
	}
	if err := l.dial(ctx); err != nil {
		return got.value, err
	}
	ctx, enough := context.WithTimeout(ctx, answerTime)
	defer enough()
	answers, conn := make(chan answer, 1), l.conn
	// A goroutine, since a write to a socket that is full heeds no context.
	go func() {
		value, err := call(ctx, conn)
		answers <- answer{value, err}
	}()
	select {
	case got = <-answers:
	case <-ctx.Done():
		got.err = fmt.Errorf("systemd does not answer: %w", ctx.Err())
	}
	if got.err != nil && !systemd.Refused(got.err) {
		l.close()
	}
	return got.value, got.err
}

// tell is ask without a value.
func tell(ctx context.Context, l *link, call func(context.Context, *systemd.Conn) error) error {
	_, err := ask(ctx, l, func(ctx context.Context, conn *systemd.Conn) (struct{}, error) {
		return struct{}{}, call(ctx, conn)
	})
	return err
}

// watch lets the unit's changes be told from now on.
func (l *link) watch(ctx context.Context) error {
	if l.ended != nil {
		return nil
	}
	ended, err := ask(ctx, l, func(ctx context.Context, conn *systemd.Conn) (<-chan struct{}, error) {
		return conn.Watch(ctx, l.unit)
	})
	if err == nil {
		l.ended = ended
	}
	return err
}

// look returns the present state of the unit.
func (l *link) look(ctx context.Context) (state, error) {
	if err := l.watch(ctx); err != nil {
		return state{}, err
	}
	properties, err := ask(ctx, l, func(ctx context.Context, conn *systemd.Conn) (map[string]any, error) {
		return conn.GetAllPropertiesContext(ctx, l.unit)
	})
	return stateOf(properties), err
}
