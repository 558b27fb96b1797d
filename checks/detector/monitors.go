package detector

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/containerruntime"
	config "github.com/nodemend/nodemend/config/detector"
)

// newMonitors returns a monitor for each check that is enabled. closeChecks is
// to be called when the monitors have stopped.
func newMonitors(ctx context.Context, settings config.Checks, registry prometheus.Registerer) (monitors []*checks.Monitor, closeChecks func(), err error) {
	metrics, err := checks.NewMetrics(registry)
	if err != nil {
		return nil, nil, fmt.Errorf("registering the metrics of checks: %w", err)
	}
	closeChecks = func() {}
	if runtime := settings.ContainerRuntime; runtime.Enabled {
		check, err := containerruntime.New(containerruntime.Options{
			Endpoint: runtime.Endpoint, Timeout: runtime.Timeout.Duration, Clock: clock.RealClock{},
		})
		if err != nil {
			return nil, nil, err
		}
		closeChecks = check.Close
		monitors = append(monitors, checks.NewMonitor(ctx, check, checks.MonitorOptions{
			Interval: runtime.Interval.Duration, Timeout: check.Timeout(), Clock: clock.RealClock{}, Metrics: metrics,
		}))
	}
	return monitors, closeChecks, nil
}
