// Package detector is the detector role: it runs checks, and the monitors that
// node-problem-detector's configuration files describe, in
// node-problem-detector's core and writes what they see to the Node.
package detector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/events"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/checks/npd"
	"github.com/nodemend/nodemend/checks/statefile"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serve"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// Options of a detector.
type Options struct {
	// NodeName is the name of the Node that it runs on. Required.
	NodeName string
	// Config says which checks run and how. It must be valid.
	Config config.Config
	// CustomPlugins, SystemLogs and SystemStats are paths of configuration files
	// of node-problem-detector's monitors.
	CustomPlugins, SystemLogs, SystemStats []string
	// Client is how the API server is reached. Required unless WithoutAPIServer.
	// Its user needs get on nodes, patch on nodes/status, create and patch on
	// events, and for the checks of the kubelet get on nodes/metrics and
	// nodes/healthz.
	Client *rest.Config
	// WithoutAPIServer, WithoutStatus and WithoutEvents leave out writing to the
	// API server at all, conditions, and events.
	WithoutAPIServer, WithoutStatus, WithoutEvents bool
	// EventNamespace is where events are written; empty: default.
	EventNamespace string
	// HealthAddress is the TCP address on which /healthz and /conditions are served,
	// MetricsAddress that of /metrics. Empty: not served.
	HealthAddress, MetricsAddress string
	// Registry takes the metrics. nil: a new one.
	Registry *prometheus.Registry
	// Rehearsed is called by Run once, when all that it takes to report a problem has been executed,
	// without an effect, or for RehearsalTime in vain: for a program that locks its memory. Nil:
	// nothing is rehearsed.
	Rehearsed func()

	// rehearsing says that all of this is a rehearsal.
	rehearsing bool
	// lookOnly says that a person looks: see checks.Node.
	lookOnly bool
	// reportBMC is that of checks.Node.
	reportBMC func(power.ReportedBMC)
}

// detector is what Run runs.
type detector struct {
	options  Options
	registry *prometheus.Registry
	// booted is when the node has booted, by its clock; bootID is the kernel's.
	booted time.Time
	bootID string
	// core is the client of the API server; nil without one.
	core        rest.Interface
	serverClock *serverclock.Clock
	recorder    *events.Recorder // nil: no events
	conditions  *exporter.Exporter
	monitors    []monitor
	ready       *readyCondition
	// thresholds, latches, absences and milder are what the exporter has to know of
	// conditions.
	thresholds map[corev1.NodeConditionType]exporter.Thresholds
	latches    map[corev1.NodeConditionType]exporter.Latch
	absences   map[corev1.NodeConditionType][]string
	milder     map[corev1.NodeConditionType][]string
	// uncounted are conditions whose files decline node-problem-detector's metrics.
	uncounted map[string]bool
	// close releases what checks hold.
	close []func()
}

// Run runs the detector until ctx ends; it returns nil then. All its goroutines
// have ended when it returns, but for those of checks that ignore their
// deadline. It returns an error, and leaves behind what hangs, if it makes no
// progress for two minutes or so: the process has to be started anew then. An API
// server that can't be reached is no error: it is waited for. ctx carries the logger.
func Run(ctx context.Context, options Options) (err error) {
	d := &detector{
		options:     options,
		registry:    cmp.Or(options.Registry, prometheus.NewRegistry()),
		serverClock: serverclock.New(clock.RealClock{}),
		thresholds:  map[corev1.NodeConditionType]exporter.Thresholds{},
		latches:     map[corev1.NodeConditionType]exporter.Latch{},
		absences:    map[corev1.NodeConditionType][]string{},
		milder:      map[corev1.NodeConditionType][]string{},
		uncounted:   map[string]bool{},
	}
	d.options.reportBMC = func(r power.ReportedBMC) { d.conditions.ReportBMC(r) } // no check runs before there is one
	defer func() {
		if !errors.Is(err, errStuck) { // what hangs may be in use
			d.release()
		}
	}()
	for _, prepare := range []func(context.Context) error{
		d.readBoot, d.registerMetrics, d.connect, d.newMonitors, d.newExporter,
	} {
		if err := prepare(ctx); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
	}
	return d.run(ctx)
}

func (d *detector) run(ctx context.Context) error {
	monitors := make([]npd.Monitor, len(d.monitors))
	for i, m := range d.monitors {
		monitors[i] = m
	}
	takers := []func(*checks.Report){d.conditions.Take}
	if d.recorder != nil {
		takers = append(takers, d.recorder.Take)
	}
	klog.FromContext(ctx).Info("Detector starts", "node", d.options.NodeName, "monitors", fmt.Sprint(d.monitors))

	progress := progress(d.parts())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.conditions.Run(ctx) })
	group.Go(func() error { return npd.Run(ctx, monitors, takers...) })
	group.Go(func() error {
		return serve.At(ctx, "--port", d.options.HealthAddress, newHealthHandler(d.conditions, progress))
	})
	group.Go(func() error {
		return serve.At(ctx, "--prometheus-port", d.options.MetricsAddress, serve.Metrics(d.registry))
	})
	if socket := openSocket(ctx, d.options.Config.Socket); socket != nil {
		group.Go(func() error { return serve.HTTP(ctx, socket, newDemandHandler(d.demand)) })
	}
	if d.options.Rehearsed != nil {
		group.Go(func() error {
			if err := rehearse(ctx, d.options); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Info("Parts of the program may have to be read from its disk: the rehearsal of a problem has failed", "err", err.Error())
			}
			d.options.Rehearsed()
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	return watched(ctx, ended, progress)
}

func (d *detector) readBoot(context.Context) (err error) {
	if d.booted, err = boot.Time(clock.RealClock{}); err != nil {
		return err
	}
	d.bootID, err = boot.ID(boot.IDPath)
	return err
}

func (d *detector) registerMetrics(ctx context.Context) error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := d.registry.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the process: %w", err)
		}
	}
	if d.options.rehearsing {
		return nil // those are of the process
	}
	return npd.ServeMetrics(ctx, d.registry)
}

func (d *detector) connect(ctx context.Context) error {
	if d.options.WithoutAPIServer {
		return nil
	}
	cfg := rest.CopyConfig(d.options.Client)
	cfg.Wrap(d.serverClock.Wrap)
	// A Node with its images is large, and costs less to read like this.
	cfg.AcceptContentTypes, cfg.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	core, err := coreapi.New(cfg)
	if err != nil {
		return err
	}
	d.core = core
	if !d.options.WithoutEvents {
		d.recorder = events.NewRecorder(ctx, core, d.options.NodeName, d.options.EventNamespace)
	}
	return nil
}

func (d *detector) newExporter(ctx context.Context) (err error) {
	c := d.options.Config
	restored, err := restore(ctx, c.StateFile, func() (statefile.State, error) { return statefile.Load(c.StateFile, d.options.NodeName) })
	if err != nil {
		return fmt.Errorf("waiting for the state file %s: %w", c.StateFile, err)
	}
	options := exporter.Options{
		NodeName:         d.options.NodeName,
		Heartbeat:        c.Heartbeat.Interval.Duration,
		ProblemHeartbeat: c.Heartbeat.ProblemInterval.Duration,
		Thresholds:       d.thresholds,
		Latches:          d.latches,
		Absences:         d.absences,
		Milder:           d.milder,
		Named:            d.named(),
		Offline:          d.core == nil || d.options.WithoutStatus,
		StateFile:        c.StateFile,
		Restored:         restored,
		Boot:             d.booted,
		BootID:           d.bootID,
		OnChange: func(c exporter.Change) {
			switch {
			case d.options.rehearsing:
				countProblems(ctx, c, 0)
			case !d.uncounted[c.Type]:
				countProblem(ctx, c)
			}
			if d.recorder != nil {
				d.recorder.Changed(c)
				if d.options.rehearsing {
					d.recorder.Changed(c) // the same event again is written in another way
				}
			}
		},
		Clock:       clock.RealClock{},
		Rand:        rand.Float64,
		Registerer:  d.registry,
		ServerClock: d.serverClock,
	}
	d.conditions, err = exporter.New(d.core, options)
	return err
}

// demand runs all checks at once and has what they see written at once.
func (d *detector) demand() {
	d.ready.demand()
	d.conditions.Demand()
	for _, m := range d.monitors {
		m.Trigger()
	}
}

// parts are those whose health is the detector's.
func (d *detector) parts() []healthy {
	parts := []healthy{d.conditions}
	for _, m := range d.monitors {
		parts = append(parts, m)
	}
	return parts
}

func (d *detector) release() {
	for _, release := range d.close {
		release()
	}
	if d.recorder != nil {
		d.recorder.Stop()
	}
}
