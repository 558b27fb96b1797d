package pleg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/internal/bounded"
)

// observation is what one run has seen.
type observation struct {
	// now is when everything had been seen.
	now  time.Time
	page page
	// These are nil unless there was doubt.
	healthz *healthz
	probe   *probe
	ready   *ready
}

// page is the answer to /metrics.
type page struct {
	sample sample // valid if err is nil
	err    error
}

// healthz is the answer to the plain /healthz; any answer shows that the kubelet
// is alive.
type healthz struct{ err error }

// probe is the outcome of listing pod sandboxes.
type probe struct {
	err error
	// timedOut is whether the runtime did not answer. If it answered with an
	// error, or could not be asked, err is set but timedOut is not.
	timedOut bool
	took     time.Duration
}

// ready is the condition Ready, valid if err is nil.
type ready struct {
	condition corev1.NodeCondition
	err       error
}

// doubt is what to look at beside the metrics.
type doubt struct{ healthz, probe, ready bool }

// observe ends with ctx. If there is no answer from /metrics after half of the
// time, everything else is looked at while it is waited for.
func (c *Check) observe(ctx context.Context) observation {
	reading := bounded.Start(func() page { return c.readPage(ctx) })
	patience := c.options.Clock.NewTimer(c.options.Timeout / 2)
	defer patience.Stop()

	var seen observation
	select {
	case <-reading.Done():
		seen.page = reading.Value()
		c.look(ctx, &seen, doubts(seen.page, c.options.Clock.Now(), c.options.MaxLastSeen))
	case <-patience.C():
		c.look(ctx, &seen, doubt{healthz: true, probe: true, ready: true})
		seen.page = reading.Value()
	}
	seen.now = c.options.Clock.Now()
	return seen
}

func (c *Check) readPage(ctx context.Context) page {
	var metrics parser
	response, err := c.options.Kubelet.Copy(ctx, "/metrics", &metrics)
	if err != nil {
		return page{err: err}
	}
	if response.Status != http.StatusOK {
		return page{err: fmt.Errorf("GET /metrics of the kubelet: %d %s", response.Status, http.StatusText(response.Status))}
	}
	s, err := metrics.end()
	if err != nil {
		return page{err: fmt.Errorf("the kubelet's /metrics: %w", err)}
	}
	return page{sample: s}
}

// look fills in what doubt asks for, all at the same time.
func (c *Check) look(ctx context.Context, seen *observation, doubt doubt) {
	var looking bounded.Group
	if doubt.healthz {
		looking.Go(func() {
			_, err := c.options.Kubelet.Healthz(ctx)
			seen.healthz = &healthz{err: err}
		})
	}
	if doubt.probe {
		looking.Go(func() { seen.probe = c.listSandboxes(ctx) })
	}
	if doubt.ready {
		looking.Go(func() {
			condition, err := c.options.ReadyCondition(ctx)
			seen.ready = &ready{condition: condition, err: err}
		})
	}
	looking.Wait()
}

func (c *Check) listSandboxes(ctx context.Context) *probe {
	started := c.options.Clock.Now()
	err := c.options.Probe(ctx)
	return &probe{
		err: err,
		timedOut: err != nil && (errors.Is(ctx.Err(), context.DeadlineExceeded) ||
			errors.Is(err, context.DeadlineExceeded) || grpcstatus.Code(err) == codes.DeadlineExceeded),
		took: c.options.Clock.Since(started),
	}
}
