package command

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

// freshFor is how long systemd is trusted to be there still after it has answered.
const freshFor = time.Second

// errNoFiles is why a command is not started over the message bus: what it prints to has
// to be handed to systemd.
var errNoFiles = errors.New("systemd answers over the message bus alone, where no open files are handed over, and not by " + systemd.DefaultPrivate)

// ready is all that can be asked of systemd before an order is claimed, so that the
// command starts soon after.
type ready struct {
	uid       types.UID // of the order
	at        time.Time
	link      *link    // watches the order's unit
	inherited []string // what systemd gives to all services
}

// makeReady connects to systemd and asks it. Nothing is done on the node.
func (r *Remedy) makeReady(ctx context.Context, order remedy.Order, deadline time.Time) (*ready, error) {
	l := newLink(r.opts.Dialer, unitOf(order))
	l.deadline = deadline
	if err := l.watch(ctx); err != nil {
		l.close()
		return nil, err
	}
	if !l.conn.TakesFiles() {
		l.close()
		return nil, errNoFiles
	}
	inherited, err := ask(ctx, l, managerEnvironment)
	if err != nil {
		l.close()
		return nil, err
	}
	return &ready{uid: order.UID, at: r.opts.Clock.Now(), link: l, inherited: inherited}, nil
}

// keep keeps it for Execute, until ctx ends.
func (r *Remedy) keep(ctx context.Context, next *ready) {
	r.ready.Store(next)
	context.AfterFunc(ctx, func() {
		if r.ready.CompareAndSwap(next, nil) {
			next.link.close()
		}
	})
}

// forget closes what is kept.
func (r *Remedy) forget() {
	if kept := r.ready.Swap(nil); kept != nil {
		kept.link.close()
	}
}

// getReady returns what was kept for the order. If it is old, or its connection has
// broken meanwhile, another one is made: nothing was sent on it but questions. The caller
// closes its link.
func (r *Remedy) getReady(ctx context.Context, order remedy.Order, deadline time.Time) (*ready, error) {
	kept := r.ready.Swap(nil)
	if kept != nil && kept.uid == order.UID && r.opts.Clock.Since(kept.at) <= freshFor && kept.link.connected() {
		kept.link.deadline = deadline
		return kept, nil
	}
	if kept != nil {
		kept.link.close()
	}
	return r.makeReady(ctx, order, deadline)
}
