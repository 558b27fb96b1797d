package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/nodemend/nodemend/runner/systemd"
)

// answerTime is how long a healthy systemd may take to answer.
const answerTime = 5 * time.Second

// link is a connection to systemd that is made again after it has failed. It is used
// by one goroutine.
type link struct {
	dialer systemd.Dialer
	unit   string
	conn   *systemd.Conn
	// ended gets a value when systemd says that the unit's main process has ended. It
	// may miss that.
	ended chan struct{}
	// unsubscribe is nil as long as nothing is sent to ended.
	unsubscribe func()
}

func newLink(dialer systemd.Dialer, unit string) *link {
	return &link{dialer: dialer, unit: unit, ended: make(chan struct{}, 1)}
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

// close ends the connection. To close one whose systemd hangs can take as long as
// that does, which nobody waits for.
func (l *link) close() {
	if l.conn == nil {
		return
	}
	if l.unsubscribe != nil {
		l.unsubscribe()
		l.unsubscribe = nil
	}
	go l.conn.Close()
	l.conn = nil
}

// ask calls systemd, which has answerTime to answer. After any other error than
// systemd's own no, the next call connects again.
func ask[T any](ctx context.Context, l *link, call func(context.Context, *systemd.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var got answer
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
	if got.err != nil && !refused(got.err) {
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

// subscribe lets ended be told from now on.
func (l *link) subscribe(ctx context.Context) error {
	if err := l.dial(ctx); err != nil || l.unsubscribe != nil {
		return err
	}
	// What does not fit in is lost: then the next look at the unit tells.
	updates, errs := make(chan *dbus.PropertiesUpdate, 256), make(chan error, 1)
	end, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		l.forward(updates, errs, end)
	}()
	l.unsubscribe = func() {
		close(end)
		<-idle
	}
	l.conn.SetPropertiesSubscriber(updates, errs)
	return tell(ctx, l, func(_ context.Context, conn *systemd.Conn) error { return conn.Subscribe() })
}

func (l *link) forward(updates <-chan *dbus.PropertiesUpdate, errs <-chan error, end <-chan struct{}) {
	for {
		select {
		case u := <-updates:
			if sub, _ := u.Changed["SubState"].Value().(string); u.UnitName != l.unit || sub != "exited" && sub != "failed" {
				continue
			}
		case <-errs: //nolint:errcheck // too many updates for the channel: one may have been it
		case <-end:
			return
		}
		select {
		case l.ended <- struct{}{}:
		default:
		}
	}
}

// look returns the present state of the unit.
func (l *link) look(ctx context.Context) (state, error) {
	if err := l.subscribe(ctx); err != nil {
		return state{}, err
	}
	properties, err := ask(ctx, l, func(ctx context.Context, conn *systemd.Conn) (map[string]any, error) {
		return conn.GetAllPropertiesContext(ctx, l.unit)
	})
	return stateOf(properties), err
}

// refused reports whether an error is systemd's answer, so that what was asked for
// has not happened. The message bus gives other answers in its name.
func refused(err error) bool {
	answer, ok := errors.AsType[godbus.Error](err)
	if !ok {
		return false
	}
	switch answer.Name {
	case "org.freedesktop.DBus.Error.NoReply",
		"org.freedesktop.DBus.Error.Timeout",
		"org.freedesktop.DBus.Error.TimedOut",
		"org.freedesktop.DBus.Error.Disconnected":
		return false
	default:
		return true
	}
}

// named reports whether an error is systemd's answer of this name.
func named(err error, name string) bool {
	answer, ok := errors.AsType[godbus.Error](err)
	return ok && answer.Name == name
}
