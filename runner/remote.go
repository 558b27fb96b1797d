package runner

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serve"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// atOnce is how many machines a remote runner switches at a time. Each may take until the
// step's timeout, and waits most of it.
const atOnce = 64

// machinesAtOnce is of how many machines in maintenance light and power are switched at a time. One
// takes as long as its BMC needs to answer, and those of a whole rack may be silent: the others are to be read each
// proof.Plan.Repeat. So a silent one is asked less often, see afterError.
const machinesAtOnce = 64

// remoteQPS is the limit of requests per second to each API group. While power is switched, the
// node is looked at each second, and what is older than a few seconds is not acted on.
const remoteQPS = 500

// RemoteOptions say what the remote runner needs to know.
type RemoteOptions struct {
	// Switch and Needed are as in Outside, Host as in RemoteWorkerOptions. Required.
	Switch func(*corev1.Node) (power.Switch, error)
	Host   func(v1alpha1.BareMetalHostReference) (power.Switch, error)
	Needed func(*corev1.Node) (*corev1.Node, error)
	// Machines is as in RemoteWorkerOptions. Required.
	Machines Machines
	// Lead calls its argument while this process leads, and returns when it does not any
	// more. Required.
	Lead func(ctx context.Context, id string, lead func(context.Context) error) error
	// Settled is how long a switch has to say off that may have restarted meanwhile, see
	// proof.Plan. Default: that of proof.DefaultPlan.
	Settled time.Duration
	// MaintenancePower lets maintenances with power: Off switch machines off.
	MaintenancePower bool
	// DryRun answers every action with what would be done, and does nothing.
	DryRun bool
	// Clock measures timeouts. Default: the real one.
	Clock clock.WithTicker
	// Registry takes the metrics. Default: a new one.
	Registry *prometheus.Registry
	// MetricsAddress and HealthAddress are where Run serves /metrics, and /healthz and
	// /readyz; empty: nowhere.
	MetricsAddress, HealthAddress string
	// Logger is used by RunRemote. Default: nothing is logged.
	Logger logr.Logger
}

// RunRemote runs the remote runner until ctx ends, or until it does not lead any more. What is
// under way then is left to the next one.
func RunRemote(ctx context.Context, cfg *rest.Config, opts RemoteOptions) error {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Registry == nil {
		opts.Registry = prometheus.NewRegistry()
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = remoteQPS, 2*remoteQPS
	corrected := serverclock.New(opts.Clock)
	api, err := newRemoteAPI(cfg, corrected)
	if err != nil {
		return err
	}
	events, stop := newRecorder(ctx, api.core, "nodemend-remote-runner", "")
	defer stop()
	outside := Outside{
		RunnerID: name + "." + string(uuid.NewUUID()), Switch: opts.Switch, Needed: opts.Needed, Clock: opts.Clock, ServerClock: corrected, Events: events, DryRun: opts.DryRun,
	}
	worker, err := NewRemoteWorker(RemoteWorkerOptions{
		Outside: outside, API: api, Host: opts.Host, Machines: opts.Machines, Settled: opts.Settled, Registry: opts.Registry,
	})
	if err != nil {
		return err
	}
	machines := NewMaintenanceWorker(MaintenanceWorkerOptions{
		Outside: outside, API: api, Take: worker.take, Give: worker.give, Power: opts.MaintenancePower,
	})
	fences, err := NewFenceWorker(FenceWorkerOptions{
		API: api, Switch: opts.Switch, Busy: worker.isBusy, ServerClock: corrected, Registry: opts.Registry,
	})
	if err != nil {
		return err
	}
	r := &remoteRunner{RemoteOptions: opts, api: api, worker: worker, machines: machines, fences: fences}
	return r.run(logr.NewContext(ctx, opts.Logger))
}

// remoteRunner is a worker and what is around it.
type remoteRunner struct {
	RemoteOptions
	api      remoteAPI
	worker   *RemoteWorker
	machines *MaintenanceWorker
	fences   *FenceWorker
	listed   atomic.Pointer[[]cache.Controller] // nil until it leads
}

func (r *remoteRunner) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve.At(ctx, "--health-address", r.HealthAddress, r.healthHandler()) })
	group.Go(func() error {
		return serve.At(ctx, "--metrics-address", r.MetricsAddress, serve.Metrics(r.Registry))
	})
	group.Go(func() error {
		err := r.Lead(ctx, r.worker.RunnerID, r.lead)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end
		}
		if err == nil {
			err = errors.New("this process does not lead any more")
		}
		return err
	})
	return group.Wait()
}

// lead works on actions until ctx ends.
func (r *remoteRunner) lead(ctx context.Context) error {
	logr.FromContextOrDiscard(ctx).Info("Remote runner leads", "runnerID", r.worker.RunnerID, "dryRun", r.DryRun)
	q := newQueue()
	stop := context.AfterFunc(ctx, q.ShutDown)
	defer stop()
	informer := watch(r.api.actions("spec.executor", string(v1alpha1.ExecutorRemote)), q, nil)
	nodes := newQueue()
	stopNodes := context.AfterFunc(ctx, nodes.ShutDown)
	defer stopNodes()
	maintenances := watchMaintenances(r.api.maintenances(), nodes)
	r.listed.Store(&[]cache.Controller{informer, maintenances})
	var all sync.WaitGroup
	all.Go(func() { informer.RunWithContext(ctx) })
	for range atOnce {
		all.Go(func() { each(ctx, q, r.worker.Work) })
	}
	all.Go(func() { maintenances.RunWithContext(ctx) })
	for range machinesAtOnce {
		all.Go(func() { eachAgain(ctx, nodes, r.machines.Work) })
	}
	r.tryFences(ctx, &all)
	all.Wait()
	return nil
}

// tryFences asks switches whether they would do, until ctx ends. What has to be switched does not wait
// for that, nor does readiness.
func (r *remoteRunner) tryFences(ctx context.Context, all *sync.WaitGroup) {
	q := newQueue()
	context.AfterFunc(ctx, q.ShutDown)
	nodes := r.fences.watch(r.api.allNodes(), q)
	all.Go(func() { nodes.RunWithContext(ctx) })
	all.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced) { // or a node of the same machine is not known
			return
		}
		for range fencesAtOnce {
			all.Go(func() { eachAgain(ctx, q, r.fences.Work) })
		}
	})
}

// healthHandler serves /healthz, which is always well, since a restart would mend nothing, and
// /readyz.
func (r *remoteRunner) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serve.Health(serve.Alive))
	mux.HandleFunc("GET /readyz", serve.Health(r.ready))
	return mux
}

// ready returns nil if actions are executed, or another process leads.
func (r *remoteRunner) ready() error {
	listed := r.listed.Load()
	if listed == nil {
		return nil
	}
	for _, informer := range *listed {
		if !informer.HasSynced() {
			return errors.New("NodeActions and NodeMaintenances have not been listed yet: is the API server reachable, are the CRDs installed, may this account list and watch nodeactions.nodemend.dev and nodemaintenances.nodemend.dev?")
		}
	}
	return nil
}
