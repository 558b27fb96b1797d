// Package systemd connects to the systemd of the node.
package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	// DefaultBus is the unix socket of the node's message bus.
	DefaultBus = "/run/dbus/system_bus_socket"
	// DefaultPrivate is the unix socket of systemd itself, for when the message
	// bus is broken. It answers root only, and only in the PID namespace of
	// systemd.
	DefaultPrivate = "/run/systemd/private"
)

// answerTime is how long a healthy systemd may take to answer.
const answerTime = 5 * time.Second

// Dialer knows the unix sockets by which systemd can be reached. Empty means not
// to try that one.
type Dialer struct {
	Bus     string
	Private string
	// Patience is how long systemd may take to answer at each socket. 0 is 5 s, for who
	// has another way; who has none gives a slow host that boots more.
	Patience time.Duration
}

// Conn is a connection to systemd. Close it. It may be used by several goroutines.
type Conn struct {
	*dbus.Conn
	calls *godbus.Conn // that of Conn for method calls
	end   context.CancelFunc
}

// Close ends the connection.
func (c *Conn) Close() {
	c.Conn.Close()
	c.end()
}

// CancelJob takes a job out of systemd's queue. One that has begun is forgotten, but
// the processes that it has started or is stopping go on. It is an error if there is no
// such job any more. ctx bounds the wait for the answer.
func (c *Conn) CancelJob(ctx context.Context, id uint32) error {
	return c.call(ctx, "CancelJob", id)
}

// RefUnit makes systemd remember a unit, with its invocation ID and its result, until
// the connection is closed, even when the unit is inactive. That works over the message
// bus only. ctx bounds the wait for the answer.
func (c *Conn) RefUnit(ctx context.Context, name string) error {
	return c.call(ctx, "RefUnit", name)
}

func (c *Conn) call(ctx context.Context, method string, arg any) error {
	manager := c.calls.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	return manager.CallWithContext(ctx, "org.freedesktop.systemd1.Manager."+method, 0, arg).Err
}

// Dial returns a connection on which systemd has just answered. It takes Patience
// for each socket at most; the error says for each what is wrong. The
// connection outlives ctx.
func (d Dialer) Dial(ctx context.Context) (*Conn, error) {
	var errs []error
	for _, way := range []struct {
		socket string
		greet  bool // only the message bus knows the method Hello
	}{{d.Bus, true}, {d.Private, false}} {
		if way.socket == "" {
			continue
		}
		conn, err := dial(ctx, way.socket, way.greet, cmp.Or(d.Patience, answerTime))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", way.socket, err))
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("no socket of it is configured"))
	}
	return nil, fmt.Errorf("systemd does not answer: %w", errors.Join(errs...))
}

func dial(ctx context.Context, socket string, greet bool, limit time.Duration) (*Conn, error) {
	patience, enough := context.WithTimeout(ctx, limit)
	defer enough()
	// The end of its context closes a connection, which is the only way to give a
	// deadline to the authentication.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(patience, end)
	var calls *godbus.Conn
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		next, err := connect(life, socket, greet)
		if calls == nil {
			calls = next // the second is for signals
		}
		return next, err
	})
	if err == nil {
		err = answers(patience, conn)
		if err != nil {
			conn.Close()
		}
	}
	if !stop() && patience.Err() != nil {
		err = fmt.Errorf("no answer within %s", limit)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	return &Conn{Conn: conn, calls: calls, end: end}, nil
}

func connect(ctx context.Context, socket string, greet bool) (*godbus.Conn, error) {
	conn, err := godbus.Dial("unix:path="+socket, godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	// The user ID by its number: its name would have to be looked up.
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && greet {
		err = conn.Hello()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// answers asks for something that every systemd can answer.
func answers(ctx context.Context, conn *dbus.Conn) error {
	_, err := conn.GetUnitPropertyContext(ctx, "-.slice", "ActiveState")
	return err
}
