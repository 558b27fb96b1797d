package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// vetoTimeout is how long the node's file systems may take to answer.
	vetoTimeout = 5 * time.Second

	// vetoInterval is how often the veto is read while nothing asks for it. When a disk
	// dies, what was read last is no older.
	vetoInterval = time.Minute
)

// errNoAnswer says that the file of the veto is on a file system that has died.
var errNoAnswer = fmt.Errorf("no answer from the file system of %s within %s: is its disk dead?", runnerconfig.Path, vetoTimeout)

// vetoes asks who owns the node, and who has configured the runner.
type vetoes struct {
	// load reads what there is. On a file system that has died it never returns.
	load  func() ([]*runnerconfig.Veto, error)
	host  remedy.Host
	clock clock.WithTicker

	// loading is full while somebody loads: a dead file system costs one goroutine.
	loading chan struct{}
	judging singleflight.Group

	mu sync.Mutex
	// last is what the last answer of a live file system was.
	last vetoAnswer
}

// vetoAnswer is what was read, and when; never if that is zero.
type vetoAnswer struct {
	vetoes []*runnerconfig.Veto
	err    error
	at     time.Time
}

func newVetoes(opts Options) *vetoes {
	return &vetoes{
		load:  func() ([]*runnerconfig.Veto, error) { return loadVetoes(opts) },
		host:  opts.host(),
		clock: opts.Clock, loading: make(chan struct{}, 1),
	}
}

// loadVetoes reads the node's own file and, if there is one, the runner's configuration.
// What one of them denies is denied.
func loadVetoes(opts Options) ([]*runnerconfig.Veto, error) {
	own, err := runnerconfig.LoadNode(opts.HostRoot)
	if err != nil {
		return nil, err
	}
	if opts.Config == "" {
		return []*runnerconfig.Veto{own}, nil
	}
	config, err := runnerconfig.LoadConfig(opts.Config)
	if err != nil {
		return nil, err
	}
	return []*runnerconfig.Veto{own, config}, nil
}

// vetoed returns why an order is forbidden, or "". All is read each time, so that an edit
// acts at once. If it can't be read, the order may be forbidden, and so it is.
func (v *vetoes) vetoed(ctx context.Context, order remedy.Order) string {
	kind := kindNamed(order.Step.Remedy())
	got := v.read(ctx)
	if dead(got.err) && !kind.OnDisk {
		got = v.readLast(ctx, got)
	}
	if got.err != nil {
		return notAsked(got.err)
	}
	hash, err := order.Step.Hash()
	switch {
	case err != nil:
		return notAsked(err)
	case kind.Vetoed == nil:
		return notAsked(fmt.Errorf("there is no veto for %s", order.Step.Remedy()))
	}
	for _, veto := range got.vetoes {
		if reason := veto.Step(hash); reason != "" {
			return reason
		}
		if !kind.OnDisk {
			if reason := kind.Vetoed(veto, v.host, order); reason != "" {
				return reason
			}
		} else if reason := v.judge(ctx, veto, kind, order, hash); reason != "" {
			return reason
		}
	}
	return ""
}

func notAsked(err error) string {
	return fmt.Sprintf("the node's own configuration can't be asked, so it may forbid this: %v", err)
}

// judge looks at files of the host, which may be on a file system that has died: then
// nobody knows, and a goroutine is given up for each question that is not answered.
func (v *vetoes) judge(ctx context.Context, veto *runnerconfig.Veto, kind remedy.Kind, order remedy.Order, hash string) string {
	if veto == nil {
		return ""
	}
	timer := v.clock.NewTimer(vetoTimeout)
	defer timer.Stop()
	answer := v.judging.DoChan(fmt.Sprintf("%s %+v", hash, *veto), func() (any, error) {
		return kind.Vetoed(veto, v.host, order), nil
	})
	select {
	case got := <-answer:
		reason, _ := got.Val.(string)
		return reason
	case <-ctx.Done():
		return notAsked(ctx.Err())
	case <-timer.C():
		return notAsked(fmt.Errorf("no answer from the file system within %s: is a mount dead that the command, or an entry of the file, is on?", vetoTimeout))
	}
}

// read reads what there is now.
func (v *vetoes) read(ctx context.Context) vetoAnswer {
	timer := v.clock.NewTimer(vetoTimeout)
	defer timer.Stop()
	select {
	case v.loading <- struct{}{}:
	case <-ctx.Done():
		return vetoAnswer{err: ctx.Err()}
	case <-timer.C():
		return vetoAnswer{err: errNoAnswer}
	}
	answers := make(chan vetoAnswer, 1)
	go func() {
		defer func() { <-v.loading }()
		at := v.clock.Now()
		all, err := v.load()
		got := vetoAnswer{vetoes: all, err: err, at: at}
		if !dead(err) {
			v.mu.Lock()
			v.last = got
			v.mu.Unlock()
		}
		answers <- got
	}()
	select {
	case got := <-answers:
		return got
	case <-ctx.Done():
		return vetoAnswer{err: ctx.Err()}
	case <-timer.C():
		return vetoAnswer{err: errNoAnswer}
	}
}

// dead says whether an error means that the file system has died, which is neither an
// answer of the owner nor something that the owner could mend.
func dead(err error) bool {
	for _, sign := range []error{errNoAnswer, unix.EIO, unix.EUCLEAN, unix.EBADMSG} { // the last two: its metadata is damaged
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// readLast returns what was read before the file system has died, if anything was.
func (v *vetoes) readLast(ctx context.Context, now vetoAnswer) vetoAnswer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last.at.IsZero() {
		return vetoAnswer{err: fmt.Errorf("%w, and this runner has not read it before", now.err)}
	}
	logr.FromContextOrDiscard(ctx).Info("The node's own configuration can't be read; what was read last counts", "why", now.err.Error(), "readAt", v.last.at)
	return v.last
}

// follow reads all from time to time until ctx ends, and logs when it can't be read.
func (v *vetoes) follow(ctx context.Context) {
	ticker := v.clock.NewTicker(vetoInterval)
	defer ticker.Stop()
	logged := ""
	for {
		said := ""
		if err := v.read(ctx).err; err != nil && ctx.Err() == nil {
			if said = err.Error(); said != logged {
				logr.FromContextOrDiscard(ctx).Error(err, "The node's own configuration can't be read, so nothing that it may forbid is executed")
			}
		}
		logged = said
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}
