package sim

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/test/apiserver"
)

// process is one of Nodemend's: a controller, a runner or a detector. It is what dies and
// is started again; all that it knows is gone then.
type process struct {
	world *world
	name  string
	ctx   context.Context
	kill  context.CancelFunc
	dead  atomic.Bool
	// frozen is until when it does nothing, as one that is stopped, or swapped out.
	frozen time.Time
	// cut is until when a controller does not reach the API server.
	cut time.Time
	// node it runs on, nil for a controller and for a remote runner.
	node   *node
	remote bool

	clock *skewed
	// server is the clock corrected by the server's, answered what teaches it; nil
	// unless it is used.
	server   *serverclock.Clock
	answered http.RoundTripper

	client  *apiserver.Client
	view    *apiserver.View
	watches []*watch
	loops   []*loop
}

// watch is that of one kind.
type watch struct {
	kind client.Object
	// stalled is until when nothing comes.
	stalled time.Time
	// turn of its next event, 0 while there is none.
	turn uint64
	// told gets what the view has learned.
	told func(apiserver.Step)
}

// unseen are the watches, if any of them has an event that the process has not seen.
func (p *process) unseen() []*watch {
	if p.view.Current() {
		return nil
	}
	return p.watches
}

// loop looks at objects by their names.
type loop struct {
	process *process
	name    string
	workers int
	queue   *queue
	look    func(ctx context.Context, name string) (reconcile.Result, error)
	// more is what a look has found to look at.
	more []string
}

// skewed is a clock that is off.
type skewed struct {
	clock.RealClock
	world  *world
	offset time.Duration
}

// Now implements clock.PassiveClock.
func (c *skewed) Now() time.Time {
	c.world.published()
	return time.Now().Add(c.offset)
}

// Since implements clock.PassiveClock.
func (c *skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (w *world) newProcess(name, user string, n *node) *process {
	p := &process{world: w, name: name, node: n, clock: &skewed{world: w}}
	p.ctx, p.kill = context.WithCancel(w.ctx)
	p.client = w.server.Client(user, p.gate)
	p.view = w.server.View()
	w.processes = append(w.processes, p)
	return p
}

// end kills a process: nothing of it has an effect any more but what is on its way.
func (w *world) end(p *process) {
	if p == nil || p.dead.Load() {
		return
	}
	p.dead.Store(true)
	w.say(p.name, "dies")
	w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
	p.kill()
	w.gather()
	for _, c := range w.calls {
		if c.process == p && !c.abandoned {
			c.abandoned = true
			c.reply <- errDied
		}
	}
	w.settle()
}

// errDied ends the goroutine that gets it.
var errDied = errors.New("the process has died")

type (
	taskKey   struct{}
	beganKey  struct{}
	writesKey struct{}
)

// call is a request on its way.
type call struct {
	process *process
	task    string
	request apiserver.Request
	serve   func() error
	// writes is what a remote runner's write of an action is to store.
	writes *v1alpha1.NodeAction
	// sent is when it was sent, ready when it arrives at the server, or its answer at the caller.
	sent, ready time.Time
	// served is whether the server has executed it; answer is what it says then.
	served bool
	answer error
	// abandoned: nobody waits for the answer.
	abandoned bool
	reply     chan error
	judged    bool
	// slowed: it has been on its way for long, or is to be; quietFor is more than any is.
	slowed bool
	turn   uint64
	// began is when the look began that asks, by its turn.
	began uint64
}

// gate is the process's way to the server.
func (p *process) gate(ctx context.Context, r apiserver.Request, serve func() error) error {
	if p.dead.Load() {
		runtime.Goexit()
	}
	task, _ := ctx.Value(taskKey{}).(string)
	began, _ := ctx.Value(beganKey{}).(uint64)
	writes, _ := ctx.Value(writesKey{}).(*v1alpha1.NodeAction)
	c := &call{process: p, task: task, began: began, request: r, writes: writes, serve: serve, sent: time.Now(), ready: time.Now(), reply: make(chan error, 1)}
	p.world.send(c)
	select {
	case err := <-c.reply:
		if errors.Is(err, errDied) {
			runtime.Goexit()
		}
		return err
	case <-ctx.Done():
		if p.dead.Load() {
			runtime.Goexit()
		}
		p.world.published()
		select {
		case err := <-c.reply: // at the same time: each run is to choose alike
			return err
		default:
		}
		c.abandoned = true
		return ctx.Err()
	}
}

// role is what kind of process it is.
func (p *process) role() string {
	role, _, _ := strings.Cut(p.name, " ")
	switch {
	case p.remote:
		role = "remote"
	case p.node == nil:
		role = "controller"
	}
	return role
}

// leads reports whether it is a controller.
func (p *process) leads() bool { return p.node == nil && !p.remote }

// slowUntil says until when requests of a process that is no controller may be on their way.
func (p *process) slowUntil(at time.Time) {
	if p.node != nil {
		p.node.slow = later(p.node.slow, at)
		return
	}
	for _, n := range p.world.nodes {
		n.slow = later(n.slow, at)
	}
}

// mayWork reports whether the process does anything now.
func (p *process) mayWork(now time.Time) bool { return !p.dead.Load() && !p.frozen.After(now) }
