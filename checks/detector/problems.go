package detector

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/checks/npd"
)

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
				if err := npd.ShowProblem(condition, reason, false); err != nil {
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
	if err := npd.ShowProblem(c.Type, c.Reason, problem); err != nil {
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
		if err := npd.CountProblem(reason, count); err != nil {
			klog.FromContext(ctx).Error(err, "Counting in problem_counter", "reason", reason)
		}
	}
}
