package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
)

const (
	// writeTime is how long one write may take, with reading back and repeating.
	writeTime = 10 * time.Second
	// writeTries is how often one write is tried.
	writeTries = 5
)

// Permits gives out the permits of all budgets. There is one write in flight for
// each budget: what is asked for meanwhile is written together by the next. Every
// write names the version that it is made from, so that nothing is decided on an
// old state, whoever else writes. It may be used concurrently.
type Permits struct {
	client client.Client
	live   client.Reader
	// controlPlane holds a token while a permit for one of its nodes is taken.
	controlPlane chan struct{}

	mu      sync.Mutex
	writers map[string]*writer
}

// New returns Permits that read with the client, which may have a cache, and
// where that is not enough with live, which has none.
func New(c client.Client, live client.Reader) *Permits {
	return &Permits{client: c, live: live, controlPlane: make(chan struct{}, 1), writers: map[string]*writer{}}
}

// writer is the queue of one budget. Nobody waits in it but the callers.
type writer struct {
	// slot holds a token while one of the callers writes for all.
	slot chan struct{}

	mu      sync.Mutex
	pending []*change
	// last is the last answer of the API server, which may be newer than the cache.
	last *v1alpha1.RemediationBudget
}

// change is what one caller wants.
type change struct {
	order order
	// apply changes the budget b in place, unless it fails; was is how the API server has
	// it. It may be called again with another version of the budget.
	apply func(was, b *v1alpha1.RemediationBudget) error
	err   error
	done  chan struct{}
}

// order in which the changes of one write are applied.
type order int

const (
	orderRelease order = iota
	orderCount
	orderTake
)

// change applies a change to a budget and returns when it is written.
func (p *Permits) change(ctx context.Context, budget string, order order, apply func(was, b *v1alpha1.RemediationBudget) error) error {
	w := p.writer(budget)
	c := &change{order: order, apply: apply, done: make(chan struct{})}
	w.add(c)
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		w.remove(c)
		return ctx.Err()
	case w.slot <- struct{}{}:
		defer func() { <-w.slot }()
	}
	select {
	case <-c.done:
		return c.err
	default:
	}
	batch := w.takeAll()
	// The others of the batch do not depend on this caller's patience.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	err := p.write(ctx, w, budget, batch)
	if errors.Is(err, ErrExhausted) && len(batch) > 1 { // for the sake of one of them
		err = nil
		for _, c := range batch {
			if refused := p.write(ctx, w, budget, []*change{c}); refused != nil {
				c.err = refused
			}
		}
	}
	for _, c := range batch {
		if err != nil {
			c.err = err // a refusal may have been for the sake of what was not written
		}
		close(c.done)
	}
	return c.err
}

// write applies the batch to the newest known version of the budget. After an
// answer that was lost, or a conflict, it reads back and applies it again.
func (p *Permits) write(ctx context.Context, w *writer, name string, batch []*change) error {
	b, err := p.known(ctx, w, name)
	read := false
	for try := 1; ; try++ {
		if err == nil {
			err = p.writeOnce(ctx, w, b, batch, read)
		}
		switch {
		case err == nil:
			return nil
		case apierrors.IsInvalid(err):
			return fmt.Errorf("%w: budget %s: %s", ErrExhausted, name, reason(err))
		case apierrors.IsNotFound(err) && read:
			w.remember(nil)
			return err
		case apierrors.IsForbidden(err), try == writeTries, ctx.Err() != nil:
			return err
		}
		b, read = &v1alpha1.RemediationBudget{}, true
		err = p.live.Get(ctx, types.NamespacedName{Name: name}, b)
	}
}

// errUnproven says that nothing had to be written, which shows only that it was
// so in the version at hand.
var errUnproven = errors.New("the budget was not read")

func (p *Permits) writeOnce(ctx context.Context, w *writer, b *v1alpha1.RemediationBudget, batch []*change, read bool) error {
	updated := b.DeepCopy()
	held := false
	for _, c := range batch {
		c.err = c.apply(b, updated)
		held = held || c.err == nil && c.order == orderTake
	}
	if equality.Semantic.DeepEqual(b.Status, updated.Status) {
		if held && !read {
			return errUnproven
		}
		w.remember(updated)
		return nil
	}
	patch := optimistic.Since(b)
	if err := p.client.Status().Patch(ctx, updated, patch, fieldmanager.Controller); err != nil {
		return err
	}
	w.remember(updated)
	return nil
}

// known returns the newest version of the budget that is known without asking the
// API server.
func (p *Permits) known(ctx context.Context, w *writer, name string) (*v1alpha1.RemediationBudget, error) {
	var b v1alpha1.RemediationBudget
	if err := p.client.Get(ctx, types.NamespacedName{Name: name}, &b); err != nil {
		return nil, err
	}
	return w.newer(&b), nil
}

// Newest returns the last answer about the budget if that is newer, be it of another one
// of the name. It must not be changed.
func (p *Permits) Newest(b *v1alpha1.RemediationBudget) *v1alpha1.RemediationBudget {
	return p.writer(b.Name).newer(b)
}

func (p *Permits) writer(budget string) *writer {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.writers[budget]
	if w == nil {
		w = &writer{slot: make(chan struct{}, 1)}
		p.writers[budget] = w
	}
	return w
}

func (w *writer) add(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, c)
}

func (w *writer) remove(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(other *change) bool { return other == c })
}

func (w *writer) takeAll() []*change {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.pending
	w.pending = nil
	slices.SortStableFunc(batch, func(a, b *change) int { return int(a.order - b.order) })
	return batch
}

func (w *writer) remember(b *v1alpha1.RemediationBudget) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = b
}

func (w *writer) newer(b *v1alpha1.RemediationBudget) *v1alpha1.RemediationBudget {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return b
	}
	if c, err := resourceversion.CompareResourceVersion(w.last.ResourceVersion, b.ResourceVersion); err != nil || c <= 0 {
		return b
	}
	return w.last
}

// reason returns what the API server's rules said, without the frame around it.
func reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			return cause.Message
		}
	}
	return err.Error()
}
