package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/serve"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// FieldManager is whose conditions these are in the Nodes' managedFields.
const FieldManager = "nodemend-remote-detector"

// qps is the limit of requests per second. At a start each node is read and written, and a
// request that waits for its turn has a deadline.
const qps = 500

// Options of a remote detector.
type Options struct {
	// Config says what is looked at and how. It must be valid.
	Config config.Remote
	// Client is how the API server is reached. Required. Its user needs get, list and watch on
	// nodes, and patch on nodes/status.
	Client *rest.Config
	// OwnNode is the node that it runs on; "": that is not known.
	OwnNode string
	// Lead calls its argument while this process leads, and returns when it does not any
	// more. Required.
	Lead func(ctx context.Context, id string, lead func(context.Context) error) error
	// HealthAddress and MetricsAddress are where /healthz and /metrics are served; empty:
	// nowhere.
	HealthAddress, MetricsAddress string
	// Registry takes the metrics. Required.
	Registry *prometheus.Registry
}

// Run runs the remote detector until ctx ends, or until it does not lead any more, which is an
// error. ctx carries the logger.
func Run(ctx context.Context, options Options) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := serverclock.New(clock.RealClock{})
	core, err := connect(options.Client, server)
	if err != nil {
		return err
	}
	looks, err := newLooks(options)
	if err != nil {
		return err
	}
	metrics, err := newMetrics(options.Registry)
	if err != nil {
		return err
	}
	d := newDetector(looks, metrics, clock.RealClock{}, rand.Float64)
	d.nodes = newFleet(fleetOptions{
		looks: looks, heartbeat: options.Config.Heartbeat, clock: clock.RealClock{}, rand: rand.Float64, metrics: metrics.exporter, serverClock: server,
		export: func(o exporter.Options) (*exporter.Exporter, error) { return exporter.New(core, o) },
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve.At(ctx, "--health-address", options.HealthAddress, d.healthHandler()) })
	group.Go(func() error {
		return serve.At(ctx, "--metrics-address", options.MetricsAddress, serve.Metrics(options.Registry))
	})
	group.Go(func() error {
		err := options.Lead(ctx, name+"."+string(uuid.NewUUID()), func(ctx context.Context) error {
			return d.lead(ctx, cache.NewListWatchFromClient(core, "nodes", corev1.NamespaceAll, fields.Everything()))
		})
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

// connect returns a client of the API server, which server learns the time from.
func connect(cfg *rest.Config, server *serverclock.Clock) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = qps, 2*qps
	cfg.Wrap(server.Wrap)
	cfg.AcceptContentTypes, cfg.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	return coreapi.New(cfg)
}

// look is a way to look at nodes.
type look interface {
	// String names it in logs and metrics.
	String() string
	// settings say when it looks.
	settings() config.RemoteRun
	// types are those of the conditions that it reports of a node; none: it does not look at it.
	types(node) []string
	// look looks at all of the nodes once, until ctx ends at the latest.
	look(ctx context.Context, nodes []node) found
}

// listener is a look to which others bring what it sees.
type listener interface {
	// serve is called while this process leads, until ctx ends.
	serve(ctx context.Context) error
}

// found is what a look has found, by the names of the nodes.
type found map[string][]checks.Observation

// add adds what was found of a node's condition.
func (f found) add(node, conditionType string, r checks.Result) {
	f[node] = append(f[node], checks.Observation{Type: conditionType, Status: r.Status, Reason: r.Reason, Message: r.Message})
}

// worst is the status that most needs to be known.
func (f found) worst() checks.Status {
	worst := checks.False
	for _, observations := range f {
		for _, o := range observations {
			if o.Status == checks.True || o.Status == checks.Unknown && worst == checks.False {
				worst = o.Status
			}
		}
	}
	return worst
}

// newLooks returns what the configuration asks for.
func newLooks(options Options) (looks []look, err error) {
	c := options.Config
	if c.ControlPlaneEndpoint.Enabled {
		e, err := newEndpoints(c.ControlPlaneEndpoint, options.Client.TLSClientConfig, options.OwnNode)
		if err != nil {
			return nil, err
		}
		looks = append(looks, e)
	}
	if c.Alerts.Enabled() {
		a, err := newAlerts(c.Alerts, options.Registry, clock.RealClock{})
		if err != nil {
			return nil, err
		}
		looks = append(looks, a)
	}
	return looks, nil
}

// metrics are those of the remote detector.
type metrics struct {
	checks   *checks.Metrics
	exporter *exporter.Metrics
}

func newMetrics(registerer prometheus.Registerer) (m metrics, err error) {
	if m.checks, err = checks.NewMetrics(registerer); err != nil {
		return m, fmt.Errorf("registering the metrics of checks: %w", err)
	}
	m.exporter, err = exporter.NewMetrics(registerer)
	return m, err
}

// healthHandler serves /healthz: 503 if it leads and makes no progress, so that a restart may
// help. What was found does not matter there.
func (d *detector) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serve.Health(d.healthy))
	return mux
}

// lead looks at nodes until ctx ends.
func (d *detector) lead(ctx context.Context, nodes cache.ListerWatcher) error {
	klog.FromContext(ctx).Info("Remote detector leads", "looks", fmt.Sprint(d.looks))
	group, ctx := errgroup.WithContext(ctx)
	defer d.nodes.close()
	informer := d.nodes.informer(ctx, nodes)
	group.Go(func() error {
		informer.RunWithContext(ctx)
		return nil
	})
	group.Go(func() error {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil // ctx has ended
		}
		for _, l := range d.looks {
			group.Go(func() error {
				d.repeat(ctx, l)
				return nil
			})
			if s, is := l.(listener); is {
				group.Go(func() error { return s.serve(ctx) })
			}
		}
		return nil
	})
	return group.Wait()
}

// repeat looks again and again until ctx ends.
func (d *detector) repeat(ctx context.Context, l look) {
	run := l.settings()
	for ctx.Err() == nil {
		d.once(ctx, l)
		took := d.clock.Since(d.began[l.String()].get())
		pause := time.Duration(float64(run.Interval.Duration)*(1-0.1*d.rand())) - took
		timer := d.clock.NewTimer(max(0, pause))
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// once looks once, and hands on what was found.
func (d *detector) once(ctx context.Context, l look) {
	started := d.clock.Now()
	d.began[l.String()].set(started)
	found := l.look(ctx, d.nodes.of(l))
	if ctx.Err() != nil {
		return // what was interrupted says nothing
	}
	d.metrics.checks.Record(l.String(), started, d.clock.Since(started), found.worst())
	d.nodes.report(l.String(), started, found)
}
