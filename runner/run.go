package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// A request that failed is repeated after firstRetry, then after twice as
	// long each time, up to lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second

	// startupPatience is how long a runner waits for its first list of
	// actions: an API server that is away is no reason to restart.
	startupPatience = 24 * time.Hour
)

// Run runs a runner until ctx ends, and then until it has killed and reported
// what it was executing, which takes seconds. It keeps a cache of this node's
// actions and of nothing else.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("registering the API kinds: %w", err)
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme,
		Logger: opts.Logger,
		Cache: cache.Options{
			ReaderFailOnMissingInformer: true,
			ByObject: map[client.Object]cache.ByObject{
				&v1alpha1.NodeAction{}: {
					Field:     fields.OneTermEqualSelector("spec.nodeName", opts.NodeName),
					Transform: cache.TransformStripManagedFields(),
				},
			},
		},
		Metrics:                metricsserver.Options{BindAddress: addressOrOff(opts.MetricsAddress)},
		HealthProbeBindAddress: addressOrOff(opts.HealthAddress),
	})
	if err != nil {
		return fmt.Errorf("setting up the runner: %w", err)
	}
	if err := New(mgr, opts); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the runner of node %s: %w", opts.NodeName, err)
	}
	return nil
}

// New adds a runner to a manager whose scheme knows the core and nodemend.dev
// kinds and whose cache holds this node's NodeActions. All that a decision
// depends on is read past the cache.
func New(mgr manager.Manager, opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	bootID, err := readBootID(opts.BootIDPath)
	if err != nil {
		return err
	}
	metrics, err := newMetrics(opts.Registerer)
	if err != nil {
		return err
	}
	r := &reconciler{
		api:      api{reader: mgr.GetAPIReader(), writer: mgr.GetClient()},
		log:      mgr.GetLogger().WithName("runner"),
		clock:    opts.Clock,
		metrics:  metrics,
		nodeName: opts.NodeName,
		runnerID: opts.RunnerID,
		bootID:   bootID,
		attempts: attempts{},
	}
	err = builder.ControllerManagedBy(mgr).
		Named("runner").
		For(&v1alpha1.NodeAction{}, builder.WithPredicates(unfinishedOrDeleted())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			CacheSyncTimeout:        startupPatience,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
			// Several runners of one process share a registry, not a node.
			SkipNameValidation: ptr.To(true),
		}).
		Complete(r)
	err = errors.Join(err,
		mgr.Add(r),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("actions", listed(mgr.GetCache())))
	if err != nil {
		return fmt.Errorf("setting up the runner: %w", err)
	}
	return nil
}

// unfinishedOrDeleted lets pass what the reconciler may have to do with.
func unfinishedOrDeleted() predicate.Predicate {
	unfinished := func(obj client.Object) bool {
		action, ok := obj.(*v1alpha1.NodeAction)
		return ok && action.Finished() == nil
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return unfinished(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return unfinished(e.ObjectNew) },
		GenericFunc: func(e event.GenericEvent) bool { return unfinished(e.Object) },
	}
}

// listed is healthy once the node's actions have been listed.
func listed(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the node's NodeActions have not been listed yet: is the API server reachable, are the CRDs installed, may this account list nodeactions.nodemend.dev?")
		}
		return nil
	}
}

// addressOrOff translates to controller-runtime, where "0" means off.
func addressOrOff(address string) string {
	if address == "" {
		return "0"
	}
	return address
}
