// Package controller decides: which policy applies to which node, whether it is
// safe to act now, what the next step is, and whether it worked. It never
// touches a node itself: it writes NodeActions for the node's runner.
//
// One concern is one package: fleet (the view of the nodes), match (what starts
// a remediation), evidence (what a condition proves), others (the programs beside
// us that have a node), driven (those that ask us for a remediation), external (those
// that we ask), gates (what holds an action back), budget (permits), remediation (from
// trigger to outcome), gc (what is kept of it), maintenance and drain (out of service and
// back), outofservice (the taint that frees pods and volumes of a node that is off),
// policy (whether policies can act), gauges (how things are, for Prometheus).
package controller

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/drain"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gauges"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/maintenance"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// Options of a controller.
type Options struct {
	// LeaderElection makes replicas agree on one that acts. Only a single
	// process that can be sure to be alone does without.
	LeaderElection bool
	// LeaderElectionNamespace holds the Lease; needed outside a cluster.
	LeaderElectionNamespace string
	// MetricsAddress is where /metrics is served; "": nowhere.
	MetricsAddress string
	// HealthAddress is where /healthz and /readyz are served; "": nowhere.
	HealthAddress string
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// HistoryLimit is how many ended remediations of a node are kept; 10 when 0.
	HistoryLimit int
	// HistoryAge is how long an ended remediation is kept; 30 days when 0.
	HistoryAge time.Duration
	// Checked are the types of the conditions that the detector's checks report: a node without
	// any of them has no detector.
	Checked []string
	// Medik8sLeases: the Lease by which NodeHealthCheck and node-maintenance-operator leave a node alone is
	// taken for as long as it is out of service.
	Medik8sLeases bool
	// Clock tells the time of decisions; the real one, corrected by the API
	// server's, when nil.
	Clock clock.PassiveClock
}

// Defaults of Options.
const (
	DefaultHistoryLimit = 10
	DefaultHistoryAge   = 30 * 24 * time.Hour
)

// reconcileTime bounds one look at one object with its reads and writes: a request
// that hangs occupies no worker for ever.
const reconcileTime = 30 * time.Second

// leaseName is the name of the leader election's Lease.
const leaseName = "nodemend-controller"

// qps is the client's limit of requests per second. The API server's own
// priority and fairness protects it; this only bounds a bug of ours, and must not
// slow down hundreds of nodes that fall sick together.
const qps = 1000

// Run runs the controller until the context ends.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = qps, 2*qps
	cfg.DisableCompression = true // it takes both sides more time than the network does
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return served{next} })
	if o.Clock == nil {
		corrected := serverclock.New(clock.RealClock{})
		cfg.Wrap(corrected.Wrap)
		o.Clock = corrected
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        ctrl.LoggerFrom(ctx),
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: cmp.Or(o.MetricsAddress, "0")},
		HealthProbeBindAddress:        cmp.Or(o.HealthAddress, "0"),
		Controller: config.Controller{
			SkipNameValidation: ptr.To(true), EnableWarmup: ptr.To(o.LeaderElection), ReconciliationTimeout: reconcileTime,
		},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         stripped(),
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	if err := register(ctx, mgr, o); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return mgr.Start(ctx)
}

// stripped has the kinds of which the cache keeps only what the controller reads.
func stripped() map[client.Object]cache.ByObject {
	kinds := map[client.Object]cache.ByObject{}
	for _, kind := range []client.Object{&corev1.Node{}, &v1alpha1.Remediation{}, &v1alpha1.NodeAction{}} {
		kinds[kind] = cache.ByObject{Transform: Transform(kind)}
	}
	return kinds
}

// Transform returns what makes of an object of a kind what the cache keeps of it; nil: it keeps
// all but the managed fields.
func Transform(kind client.Object) toolscache.TransformFunc {
	switch kind.(type) {
	case *corev1.Node:
		return fleet.Strip
	case *v1alpha1.Remediation:
		return remediation.Strip
	case *v1alpha1.NodeAction:
		return attempt.Strip
	default:
		return nil
	}
}

// serves reports whether the API server serves a kind of ours: one of this version, if the CRDs are
// those of an earlier one.
func serves(mapper meta.RESTMapper, kind string) (bool, error) {
	_, err := mapper.RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether the API server serves %s: %w", kind, err)
	}
	return true, nil
}

func register(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	metrics, err := remediation.NewMetrics(o.Registry)
	if err != nil {
		return err
	}
	leftOff, err := maintenance.NewLeftOff(o.Registry)
	if err != nil {
		return err
	}
	drainer, err := drain.New(mgr.GetConfig(), mgr.GetHTTPClient(), o.Clock)
	if err != nil {
		return err
	}
	nodes, err := fleet.Cached(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	stored, err := index.Cached(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	isServed, err := serves(mgr.GetRESTMapper(), "NodemendRemediation")
	if err != nil {
		return err
	}
	if !isServed {
		ctrl.LoggerFrom(ctx).Info("The API server does not serve NodemendRemediations, so no other program can ask for a remediation: install the CRDs of this version of Nodemend, and restart the controller")
	}
	for _, loop := range Loops(Parts{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Nodes: nodes, Store: stored, Drainer: drainer,
		Clock: o.Clock, Metrics: metrics, LeftOff: leftOff, Events: mgr.GetEventRecorder(leaseName), Driven: isServed, Leases: o.Medik8sLeases,
		HistoryLimit: cmp.Or(o.HistoryLimit, DefaultHistoryLimit), HistoryAge: cmp.Or(o.HistoryAge, DefaultHistoryAge),
	}) {
		if err := loop.Register(mgr); err != nil {
			return err
		}
	}
	collector := gauges.New(ctx, gauges.Options{
		Reader: mgr.GetCache(), Nodes: nodes, Checked: o.Checked, Clock: o.Clock, Elected: mgr.Elected(), Expect: metrics.Expect,
	})
	if err := o.Registry.Register(collector); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache()))
}
