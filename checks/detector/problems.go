package detector

import (
	"context"
	"fmt"
	"strings"

	"contrib.go.opencensus.io/exporter/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/pkg/problemmetrics"

	promclient "github.com/prometheus/client_golang/prometheus"

	"github.com/nodemend/nodemend/checks/exporter"
)

// serveNPDMetrics adds the metrics of node-problem-detector, which counts by
// OpenCensus, to registry.
func serveNPDMetrics(ctx context.Context, registry *promclient.Registry) error {
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

// declareProblems shows the problems that files look for as zero, before any
// monitor runs, unless a file declines node-problem-detector's metrics.
func (d *detector) declareProblems(f files) error {
	type counted interface {
		MetricsReporting() bool
		Reasons() map[string][]string
	}
	var all []counted
	for _, c := range f.customPlugins {
		all = append(all, c)
	}
	for _, c := range f.systemLogs {
		all = append(all, c)
	}
	for _, c := range all {
		for condition, reasons := range c.Reasons() {
			if !c.MetricsReporting() {
				d.uncounted[condition] = true
				continue
			}
			for _, reason := range reasons {
				if err := problemmetrics.GlobalProblemMetricsManager.SetProblemGauge(condition, reason, false); err != nil {
					return fmt.Errorf("declaring problem_gauge of %s: %w", condition, err)
				}
			}
		}
	}
	return nil
}

// countProblem keeps node-problem-detector's problem_gauge and problem_counter.
func countProblem(ctx context.Context, c exporter.Change) {
	problem := c.Status == corev1.ConditionTrue
	if err := problemmetrics.GlobalProblemMetricsManager.SetProblemGauge(c.Type, c.Reason, problem); err != nil {
		klog.FromContext(ctx).Error(err, "Setting problem_gauge", "condition", c.Type)
	}
	if !problem || c.Confirmed {
		return
	}
	countProblems(ctx, c, 1)
}

// countProblems adds to problem_counter, which shows a problem from then on.
func countProblems(ctx context.Context, c exporter.Change, count int64) {
	for reason := range strings.SplitSeq(c.Reason, ",") { // several rules may have found a problem
		if err := problemmetrics.GlobalProblemMetricsManager.IncrementProblemCounter(reason, count); err != nil {
			klog.FromContext(ctx).Error(err, "Counting in problem_counter", "reason", reason)
		}
	}
}
