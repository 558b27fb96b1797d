// Package systemd connects to the systemd of the node.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// lookEvery is how often it is looked whether a job is there still, should systemd not
// tell of its end.
const lookEvery = time.Second

// Conn is a connection to systemd. Close it. It may be used by several goroutines. Of
// go-systemd's methods that queue a job only those below send a result, and nothing can be
// subscribed to but by Watch.
type Conn struct {
	*dbus.Conn
	calls *godbus.Conn // that of Conn
	heard *signals
	bus   bool
	end   context.CancelFunc
}

// Close ends the connection.
func (c *Conn) Close() {
	c.Conn.Close()
	c.end()
}

// TakesFiles reports whether calls may have open files among their arguments: only at
// systemd's own socket. Over the message bus anybody could send files, too.
func (c *Conn) TakesFiles() bool { return !c.bus }

// StartUnitContext is that of go-systemd. The channel has room for the result, which gets
// lost with the connection.
func (c *Conn) StartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error) {
	return c.heard.job(result, func() (int, error) { return c.Conn.StartUnitContext(ctx, name, mode, nil) })
}

// StopUnitContext is that of go-systemd; see StartUnitContext.
func (c *Conn) StopUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error) {
	return c.heard.job(result, func() (int, error) { return c.Conn.StopUnitContext(ctx, name, mode, nil) })
}

// RestartUnitContext is that of go-systemd; see StartUnitContext.
func (c *Conn) RestartUnitContext(ctx context.Context, name, mode string, result chan<- string) (int, error) {
	return c.heard.job(result, func() (int, error) { return c.Conn.RestartUnitContext(ctx, name, mode, nil) })
}

// Await waits until the job is over that queue queues, and returns its result, such as
// "done". It is an error if nobody says how it ended.
func (c *Conn) Await(ctx context.Context, queue func(result chan<- string) (int, error)) (string, error) {
	results := make(chan string, 1)
	id, err := queue(results)
	if err != nil {
		return "", err
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case result := <-results:
			return result, nil
		case <-ctx.Done():
			return "", fmt.Errorf("systemd has not said that it is done: %w", ctx.Err())
		case <-c.calls.Context().Done():
			return "", errors.New("the connection to systemd has ended before it said that it is done")
		case <-look.C:
		}
		if err := c.call(ctx, "GetJob", uint32(id)); err != nil {
			select {
			case result := <-results: // it was told first
				return result, nil
			default:
				return "", fmt.Errorf("systemd has not said how its job has ended: %w", err)
			}
		}
	}
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

func (c *Conn) call(ctx context.Context, method string, args ...any) error {
	manager := c.calls.Object(systemdName, "/org/freedesktop/systemd1")
	return manager.CallWithContext(ctx, managerInterface+"."+method, 0, args...).Err
}
