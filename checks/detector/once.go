package detector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// ReasonNothingToCheck is that of a check that was named and is off on this node.
const ReasonNothingToCheck = "NothingToCheck"

// Outcome is what a check has found in one run.
type Outcome struct {
	// Check is its name, Condition the node condition that it owns.
	Check     string        `json:"check"`
	Condition string        `json:"condition"`
	Status    checks.Status `json:"status"`
	Reason    string        `json:"reason"`
	Message   string        `json:"message"`
	// Seconds that the run took.
	Seconds float64 `json:"seconds"`
}

// CheckOnce runs the checks of these names once, beside each other, or all that
// are enabled if no name is given. It reports nothing to the API server, changes nothing of
// what the detector remembers, and neither waits for a grace period nor for a second run. Without a Client what
// needs credentials can't be looked at. A check that has nothing to check on this node
// is left out, or cannot tell if it was named.
func CheckOnce(ctx context.Context, options Options, names ...string) ([]Outcome, error) {
	if len(names) > 0 {
		options.Config.Checks.Only = names
	}
	for _, kind := range Kinds() {
		if slices.Contains(names, kind.Name) {
			kind.Settings(&options.Config.Checks).Enabled = true
		}
	}
	var core rest.Interface
	var server *serverclock.Clock
	if options.Client != nil {
		server = serverclock.New(clock.RealClock{})
		cfg := rest.CopyConfig(options.Client)
		cfg.Wrap(server.Wrap)
		var err error
		if core, err = coreapi.New(cfg); err != nil {
			return nil, err
		}
	}
	options.lookOnly = true
	enabled, err := newChecks(options, core, server, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	defer enabled.close()
	outcomes := make([]Outcome, len(enabled.list))
	var running sync.WaitGroup
	for i, e := range enabled.list {
		running.Go(func() { outcomes[i] = runOnce(ctx, e) })
	}
	running.Wait()
	for _, off := range enabled.off {
		klog.FromContext(ctx).Info("Check is off", "why", off.String())
		if slices.Contains(names, off.kind.Name) {
			outcomes = append(outcomes, Outcome{
				Check: off.kind.Name, Condition: off.kind.ConditionType,
				Status: checks.Unknown, Reason: ReasonNothingToCheck, Message: off.why,
			})
		}
	}
	return outcomes, nil
}

func runOnce(ctx context.Context, e enabledCheck) Outcome {
	timeout := e.check.Timeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	o := Outcome{Check: e.Name, Condition: e.ConditionType}
	r, late := bounded.Within(clock.RealClock{}, timeout+checks.Late, func() checks.Result { return checks.Guarded(ctx, e.Kind, e.check) })
	if late != nil {
		r.Status, r.Reason = checks.Unknown, checks.ReasonCheckTimeout
		r.Message = fmt.Sprintf("check %s has not returned at its deadline of %s", e.Name, timeout)
	}
	o.Status, o.Reason, o.Message = r.Status, r.Reason, r.Message
	o.Seconds = time.Since(began).Seconds()
	return o
}
