package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	// DefaultBus is the unix socket of the node's message bus.
	DefaultBus = "/run/dbus/system_bus_socket"
	// DefaultPrivate is the unix socket of systemd itself. It answers root only, and
	// only in the PID namespace of systemd.
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

// way is one socket of systemd, and whether it is that of the message bus.
type way struct {
	socket string
	bus    bool
}

// Dial returns a connection on which systemd has just answered, by its own socket if it
// can, as systemctl does: there nobody else is heard. It takes Patience for each socket at
// most; the error says for each what is wrong. The connection outlives ctx.
func (d Dialer) Dial(ctx context.Context) (*Conn, error) {
	return d.dial(ctx, way{d.Private, false}, way{d.Bus, true})
}

// DialBus is Dial by the message bus if it can, for RefUnit.
func (d Dialer) DialBus(ctx context.Context) (*Conn, error) {
	return d.dial(ctx, way{d.Bus, true}, way{d.Private, false})
}

func (d Dialer) dial(ctx context.Context, ways ...way) (*Conn, error) {
	var errs []error
	for _, w := range ways {
		if w.socket == "" {
			continue
		}
		conn, err := dial(ctx, w, cmp.Or(d.Patience, answerTime))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", w.socket, err))
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("no socket of it is configured"))
	}
	return nil, fmt.Errorf("systemd does not answer: %w", errors.Join(errs...))
}

func dial(ctx context.Context, w way, limit time.Duration) (*Conn, error) {
	patience, enough := context.WithTimeout(ctx, limit)
	defer enough()
	// The end of its context closes a connection, which is the only way to give a
	// deadline to the authentication.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(patience, end)
	conn, err := connect(patience, life, w)
	if !stop() && patience.Err() != nil {
		if err == nil {
			conn.Conn.Close()
		}
		err = fmt.Errorf("no answer within %s", limit)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	conn.end = end
	return conn, nil
}

// connect makes a connection that lives as long as life, and asks systemd for something
// that each can answer.
func connect(ctx, life context.Context, w way) (*Conn, error) {
	heard := &signals{bus: w.bus}
	calls, err := authenticate(life, w, heard)
	if err != nil {
		return nil, err
	}
	conn, err := withoutSignals(life, calls)
	if err != nil {
		return nil, errors.Join(err, calls.Close())
	}
	c := &Conn{Conn: conn, calls: calls, heard: heard, bus: w.bus}
	if w.bus {
		err = c.hear(ctx)
	}
	if err == nil {
		_, err = c.GetUnitPropertyContext(ctx, "-.slice", "ActiveState")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func authenticate(ctx context.Context, w way, heard *signals) (conn *godbus.Conn, err error) {
	options := []godbus.ConnOption{godbus.WithContext(ctx), godbus.WithSignalHandler(heard)}
	if w.bus {
		var socket net.Conn
		if socket, err = (&net.Dialer{}).DialContext(ctx, "unix", w.socket); err == nil {
			conn, err = godbus.NewConn(newBusSocket(socket), options...)
		}
	} else {
		conn, err = godbus.Dial("unix:path="+w.socket, options...)
	}
	if err != nil {
		return nil, err
	}
	// The user ID by its number: its name would have to be looked up.
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && w.bus {
		err = conn.Hello() // which only the message bus knows
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// withoutSignals makes a connection of go-systemd for calls alone. It would have another
// one for signals, on which it asks the message bus for them, also where there is none;
// and whatever anybody sends there it believes. That one is a dead end.
func withoutSignals(ctx context.Context, calls *godbus.Conn) (*dbus.Conn, error) {
	next := calls
	return dbus.NewConnection(func() (conn *godbus.Conn, err error) {
		conn, next = next, nil
		if conn == nil {
			conn, err = godbus.NewConn(deadEnd{}, godbus.WithContext(ctx))
		}
		return conn, err
	})
}

// deadEnd takes and gives nothing.
type deadEnd struct{}

func (deadEnd) Read([]byte) (int, error)  { return 0, io.EOF }
func (deadEnd) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (deadEnd) Close() error              { return nil }
