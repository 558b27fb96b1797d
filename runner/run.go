package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/internal/demand"
	"github.com/nodemend/nodemend/internal/serve"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
)

// Run runs a runner until ctx ends, and then for a few seconds more: what is under
// way and can be adopted is left to the next runner, the rest is ended, and
// results are reported. It waits until it is the only runner on the node, and
// for as long as the API server is away.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	r, stop, err := newRunner(ctx, cfg, opts)
	if err != nil {
		return err
	}
	defer stop()
	if !opts.DryRun {
		r.rehearse = func(ctx context.Context) error { return rehearse(ctx, opts) }
	}
	return r.run(ctx)
}

// newRunner returns a runner, and what stops it after it has run.
func newRunner(ctx context.Context, cfg *rest.Config, opts Options) (r *runner, stop func(), err error) {
	bootID, err := boot.ID(opts.BootIDPath)
	if err != nil {
		return nil, nil, err
	}
	clock := serverclock.New(opts.Clock)
	api, err := newAPI(cfg, clock)
	if err != nil {
		return nil, nil, err
	}
	events, stop := newRecorder(logr.NewContext(ctx, opts.Logger), api.core, "nodemend-runner", opts.NodeName)
	owner := newVetoes(opts)
	r = &runner{opts: opts, api: api, owner: owner, worker: WorkerOptions{
		NodeName: opts.NodeName, BootID: bootID, MachineID: machineIDOf(opts), API: api, Remedies: remedies(opts),
		Clock: opts.Clock, ServerClock: clock, Uptime: uptime,
		Vetoed:  owner.vetoed,
		Recheck: func(ctx context.Context) error { return demand.Send(ctx, opts.DetectorSocket) },
		Events:  events, Registry: opts.Registry, DryRun: opts.DryRun,
	}}
	return r, stop, nil
}

// runner is a worker and what is around it.
type runner struct {
	opts   Options
	api    api
	owner  *vetoes
	worker WorkerOptions
	listed atomic.Pointer[cache.Controller] // nil until this is the only runner

	rehearse  func(context.Context) error // nil: nothing is rehearsed
	rehearsed atomic.Bool
}

func (r *runner) run(ctx context.Context) error {
	ctx = logr.NewContext(ctx, r.opts.Logger)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve.At(ctx, "--health-address", r.opts.HealthAddress, r.healthHandler()) })
	group.Go(func() error {
		return serve.At(ctx, "--metrics-address", r.opts.MetricsAddress, serve.Metrics(r.opts.Registry))
	})
	group.Go(func() error {
		err := r.work(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end
		}
		return err
	})
	return group.Wait()
}

// work waits for its turn, and then works.
func (r *runner) work(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	release, err := ledger.Lock(ctx, r.opts.RunDir, func() {
		log.Info("Another runner is active on this node; waiting for its end", "lock", r.opts.RunDir)
	})
	if err != nil {
		return err
	}
	defer release()
	if r.worker.Ledger, err = ledger.Open(r.opts.RunDir); err != nil {
		return err
	}
	worker, err := NewWorker(r.worker)
	if err != nil {
		return err
	}
	log.Info("Runner starts", "node", r.opts.NodeName, "runnerID", worker.runnerID, "bootID", worker.BootID, "dryRun", r.opts.DryRun)

	q := newQueue()
	left := newQueue()
	after := r.aftermath()
	informer := watch(r.api.actions("spec.nodeName", r.opts.NodeName), q, func(action *v1alpha1.NodeAction) {
		if !r.opts.DryRun && after.wants(action) {
			left.Add(action.Name)
		}
	})
	r.listed.Store(&informer)
	var beside sync.WaitGroup
	beside.Go(func() { after.run(ctx, left) })
	beside.Go(func() { informer.RunWithContext(ctx) })
	beside.Go(func() { r.owner.follow(ctx) })
	beside.Go(func() { r.prepare(ctx) })
	worker.run(ctx, q)
	beside.Wait()
	return nil
}

// aftermath is what collects what dead boots have left.
func (r *runner) aftermath() *aftermath {
	return &aftermath{
		api: r.worker.API, bootID: r.worker.BootID, clock: r.worker.ServerClock, uptime: r.worker.Uptime, unwritten: map[string]*v1alpha1.Aftermath{},
		sources: newRemains(r.opts, r.worker.Vetoed).sources(),
	}
}

// prepare rehearses what the runner is there for, beside the first actions.
func (r *runner) prepare(ctx context.Context) {
	if r.rehearse != nil {
		if err := r.rehearse(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "If the disk with this program dies, a reboot may not come to its end")
		}
	}
	if r.opts.Rehearsed != nil {
		r.opts.Rehearsed()
	}
	r.rehearsed.Store(true)
}

// healthHandler serves /healthz, which is always well, since a restart would mend
// nothing and could interrupt a remedy, and /readyz.
func (r *runner) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serve.Health(serve.Alive))
	mux.HandleFunc("GET /readyz", serve.Health(r.ready))
	return mux
}

// ready returns nil once actions are executed.
func (r *runner) ready() error {
	switch informer := r.listed.Load(); {
	case informer == nil:
		return fmt.Errorf("another runner is active on this node: lslocks tells which process has the lock %s", filepath.Join(r.opts.RunDir, "lock"))
	case !(*informer).HasSynced():
		return errors.New("the node's NodeActions have not been listed yet: is the API server reachable, are the CRDs installed, may this account list nodeactions.nodemend.dev?")
	case !r.rehearsed.Load():
		return errors.New("a reboot is rehearsed, which takes a moment")
	default:
		return nil
	}
}
