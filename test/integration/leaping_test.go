//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaping is a clock that can be put forward, but not past those who play by it: each
// of them has told the API server first how things are at the present time. However
// slow the machine is, nothing that they report gets old by a leap. A nil one is the
// real clock.
type leaping struct {
	clock.RealClock

	mu     sync.Mutex
	ahead  time.Duration
	leaps  int
	leapt  chan struct{} // closed by the next leap
	actors map[*actor]bool
	// moved is closed, and made anew, whenever an actor has caught up or left, or
	// somebody has looked at the clock.
	moved chan struct{}
	looks int
}

func newLeaping() *leaping {
	return &leaping{leapt: make(chan struct{}), actors: map[*actor]bool{}, moved: make(chan struct{})}
}

// Now returns the real time and what the clock was put forward by.
func (c *leaping) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	c.move()
	return time.Now().Add(c.ahead)
}

// Since returns how long ago t was on this clock.
func (c *leaping) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *leaping) move() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// lookedAt returns how often somebody who does not play has asked for the time.
func (c *leaping) lookedAt() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// wait returns when it is so, which is asked again whenever something has moved, or
// with an error that says who is behind.
func (c *leaping) wait(ctx context.Context, so func() bool) error {
	for {
		c.mu.Lock()
		is, moved := so(), c.moved
		state := fmt.Sprintf("behind are %v, after %d leaps and %d looks at the clock", c.behind(), c.leaps, c.looks)
		c.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), state)
		}
	}
}

// behind returns the actors that have not reported since the last leap.
func (c *leaping) behind() (names []string) {
	for a := range c.actors {
		if a.told < c.leaps {
			names = append(names, a.name)
		}
	}
	return names
}

// leap puts the clock forward once all actors have caught up with it.
func (c *leaping) leap(ctx context.Context, d time.Duration) error {
	return c.wait(ctx, func() bool {
		if len(c.behind()) > 0 {
			return false
		}
		c.ahead += d
		c.leaps++
		close(c.leapt)
		c.leapt = make(chan struct{})
		return true
	})
}

// caughtUp returns when all actors have reported since the last leap.
func (c *leaping) caughtUp(ctx context.Context) error {
	return c.wait(ctx, func() bool { return len(c.behind()) == 0 })
}

// actor plays somebody who reports by the clock, in turns.
type actor struct {
	clock *leaping
	name  string
	// present is the leap after which its turn began, told that of the last turn it
	// has ended.
	present, told int
}

// actor adds an actor, which has to leave in the end. The clock may be nil.
func (c *leaping) actor(name string) *actor {
	a := &actor{clock: c, name: name}
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.told = c.leaps - 1
		c.actors[a] = true
	}
	return a
}

// turn begins a turn and returns its time.
func (a *actor) turn() time.Time {
	c := a.clock
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.present = c.leaps
	return time.Now().Add(c.ahead)
}

// next ends a turn, of which all is written by now, and returns when it is time for the
// next one: after the tick, or at once when the clock has leapt. It returns false when
// the context has ended.
func (a *actor) next(ctx context.Context, tick <-chan time.Time) bool {
	var leapt <-chan struct{}
	if c := a.clock; c != nil {
		c.mu.Lock()
		a.told = a.present
		leapt = c.leapt
		if a.told < c.leaps {
			leapt = closed
		}
		c.move()
		c.mu.Unlock()
	}
	select {
	case <-ctx.Done():
		return false
	case <-leapt:
	case <-tick:
	}
	return true
}

// closed is a channel that is.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// leave lets the clock go on without the actor.
func (a *actor) leave() {
	if c := a.clock; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.actors, a)
		c.move()
	}
}

// leap puts the clock of the scene forward, if it has one of its own.
func (s *scene) leap(d time.Duration) {
	s.t.Helper()
	if s.clock != nil {
		ctx, cancel := s.guard()
		defer cancel()
		s.Expect(s.clock.leap(ctx, d)).To(Succeed())
	}
}

// leapSeen is leap, and returns when the controller has seen what is so since.
func (s *scene) leapSeen(node string, d time.Duration) {
	s.t.Helper()
	s.leap(d)
	s.seen(node)
}

// settle returns when the controller has had every reason to do something about the node
// as it is: it has seen it, and looked at it once more and again.
func (s *scene) settle(node string) {
	s.t.Helper()
	for range 5 {
		s.seen(node)
	}
}

// seen returns when all that is reported about the node at the present time has reached
// the controller and it has looked at the clock since, so that nothing takes it by
// surprise. The scene is one apart with a clock of its own.
func (s *scene) seen(node string) {
	s.t.Helper()
	ctx, cancel := s.guard()
	defer cancel()
	s.Expect(s.clock.caughtUp(ctx)).To(Succeed())
	looks, err := s.echo.await(ctx, func(mark string) error { return s.nudge(ctx, node, mark) })
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.clock.wait(ctx, func() bool { return s.clock.looks > looks })).To(Succeed())
}

// guard bounds a wait that only ends by itself when something hangs.
func (s *scene) guard() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, patience)
}

// nudge changes the node so that whoever waits for a time looks at the clock again, whether
// or not there is a remediation yet.
func (s *scene) nudge(ctx context.Context, node, mark string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"nudge":%q}}}`, mark)
	return s.client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// echo tells when something has reached the controllers of a scene: by a mark that comes
// in what they list and watch.
type echo struct {
	mu    sync.Mutex
	marks int
	mark  []byte
	heard chan int
}

// await lets send have a new mark written, waits until it was heard, and returns how often
// somebody had looked at the clock until then.
func (e *echo) await(ctx context.Context, send func(mark string) error) (looks int, err error) {
	e.mu.Lock()
	e.marks++
	e.mark, e.heard = fmt.Appendf(nil, "mark-%06d", e.marks), make(chan int, 1)
	mark, heard := string(e.mark), e.heard
	e.mu.Unlock()
	if err := send(mark); err != nil {
		return 0, err
	}
	select {
	case looks := <-heard:
		return looks, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: no controller has seen %s", ctx.Err(), mark)
	}
}

// listen looks for the mark in what is read.
func (e *echo) listen(data []byte, c *leaping) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark != nil && bytes.Contains(data, e.mark) {
		e.mark = nil
		e.heard <- c.lookedAt()
	}
}

// overheard is the answer to a controller that lists or watches.
type overheard struct {
	io.ReadCloser
	s    *scene
	tail []byte // of what was read before
}

// markLength is that of all marks.
const markLength = len("mark-000000")

// Read looks for marks also where one begins in what was read before.
func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	text := slices.Concat(o.tail, p[:n])
	o.s.echo.listen(text, o.s.clock)
	o.tail = bytes.Clone(text[max(0, len(text)-markLength+1):])
	return n, err
}
