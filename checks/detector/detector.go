// Package detector is the detector role: it runs the configured checks in
// node-problem-detector's core and writes what they see to the Node.
package detector

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/pkg/problemdetector"
	"k8s.io/node-problem-detector/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/exporter"
	config "github.com/nodemend/nodemend/config/detector"
)

// Options of a detector.
type Options struct {
	// NodeName is the name of the Node that it runs on. Required.
	NodeName string
	// Config says which checks run and how. It must be valid.
	Config config.Config
	// Client is how the API server is reached. Required. Its user needs get on
	// nodes and patch on nodes/status.
	Client *rest.Config
	// Listener is served /healthz and /metrics, and closed at the end; nil: they
	// are not served.
	Listener net.Listener
}

// Run runs the detector until ctx ends; it returns nil then. All its goroutines
// have ended when it returns, but for those of checks that ignore their
// deadline. An API server that can't be reached is no error: it is waited for.
// ctx carries the logger.
func Run(ctx context.Context, options Options) error {
	if options.Listener != nil {
		defer func() { _ = options.Listener.Close() }() // fails if serve has closed it
	}
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the process: %w", err)
		}
	}
	conditions, err := newExporter(options, registry)
	if err != nil {
		return err
	}
	monitors, closeChecks, err := newMonitors(ctx, options.Config.Checks, registry)
	if err != nil {
		return err
	}
	defer closeChecks()

	npdMonitors := make([]types.Monitor, len(monitors))
	health := []healthy{conditions}
	for i, m := range monitors {
		npdMonitors[i], health = m, append(health, m)
	}
	klog.FromContext(ctx).Info("Detector starts", "node", options.NodeName, "checks", fmt.Sprint(monitors))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return conditions.Run(ctx) })
	group.Go(func() error {
		return problemdetector.NewProblemDetector(npdMonitors, []types.Exporter{conditions}).Run(ctx)
	})
	if options.Listener != nil {
		group.Go(func() error { return serve(ctx, options.Listener, newHandler(registry, health)) })
	}
	return group.Wait()
}

func newExporter(options Options, registry *prometheus.Registry) (*exporter.Exporter, error) {
	serverClock := exporter.NewServerClock(clock.RealClock{})
	client := rest.CopyConfig(options.Client)
	client.Wrap(serverClock.Wrap)
	core, err := corev1client.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of the API server %s: %w", client.Host, err)
	}
	return exporter.New(core.RESTClient(), exporter.Options{
		NodeName:         options.NodeName,
		Heartbeat:        options.Config.Heartbeat.Interval.Duration,
		ProblemHeartbeat: options.Config.Heartbeat.ProblemInterval.Duration,
		Clock:            clock.RealClock{},
		Rand:             rand.Float64,
		Registerer:       registry,
		ServerClock:      serverClock,
	})
}
