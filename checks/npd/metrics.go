package npd

import (
	"context"
	"fmt"

	"contrib.go.opencensus.io/exporter/prometheus"
	promclient "github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/pkg/problemmetrics"
)

// CountProblem adds n to NPD's metric problem_counter of a reason. Zero shows a reason
// for which there is no problem yet.
func CountProblem(reason string, n int64) error {
	return problemmetrics.GlobalProblemMetricsManager.IncrementProblemCounter(reason, n)
}

// ShowProblem sets NPD's metric problem_gauge of a condition and a reason, and resets
// that of the condition's reason before.
func ShowProblem(condition, reason string, problem bool) error {
	return problemmetrics.GlobalProblemMetricsManager.SetProblemGauge(condition, reason, problem)
}

// ServeMetrics adds all metrics of NPD, which counts by OpenCensus, to registry. ctx
// carries the logger.
func ServeMetrics(ctx context.Context, registry *promclient.Registry) error {
	var failed error
	_, err := prometheus.NewExporter(prometheus.Options{
		Registerer: registry, Gatherer: registry,
		OnError: func(err error) {
			if failed == nil {
				failed = err
			}
			klog.FromContext(ctx).V(1).Info("Metrics of node-problem-detector", "problem", err.Error())
		},
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("registering the metrics of node-problem-detector: %w", err)
	}
	return nil
}
