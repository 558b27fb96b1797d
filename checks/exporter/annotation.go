package exporter

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/internal/power"
)

// A write of the annotation that failed is tried again after annotateRetry, then after twice that, and
// so on up to annotateRetryMost: there may be no right to it.
const annotateRetry, annotateRetryMost = time.Minute, time.Hour

// annotation is what is known of power.BMCAnnotation.
type annotation struct {
	// wanted is the value that it is to have; "": nobody has said. onNode is the one that the Node
	// has, as far as known.
	wanted, onNode string
	failures       int
	retryAt        time.Time
}

// ReportBMC has the Node's annotation say where its BMC is reached. It is written if the Node says
// something else, and again if it says so later. It never waits for a request.
func (e *Exporter) ReportBMC(r power.ReportedBMC) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.bmc.wanted = r.String()
	wake(e.observed)
}

// planAnnotation adds a write of the annotation to a plan that has nothing else to do. It waits for as
// long as the API server is not to be asked.
func (s *state) planAnnotation(next plan, now time.Time) plan {
	a := &s.bmc
	if next.read || next.patch != nil || a.wanted == "" || a.wanted == a.onNode || s.retryAt.After(now) {
		return next
	}
	wait := a.retryAt.Sub(now)
	switch {
	case wait <= 0:
		return plan{annotate: a.wanted}
	case next.wait == 0 || wait < next.wait:
		next.wait = wait
	}
	return next
}

// annotated takes in how a write of the annotation has ended.
func (s *state) annotated(value string, err error, now time.Time) (retry time.Duration) {
	if err == nil {
		s.bmc.onNode, s.bmc.failures, s.bmc.retryAt = value, 0, time.Time{}
		return 0
	}
	retry = min(annotateRetry<<min(s.bmc.failures, 10), annotateRetryMost)
	s.bmc.failures++
	s.bmc.retryAt = now.Add(retry)
	return retry
}

// annotate writes the annotation: alone, so that it hinders nothing else if that is refused. It goes
// by nodes/status, as all that a detector writes, so it takes no right to Nodes themselves.
func (e *Exporter) annotate(ctx context.Context, value string) {
	type meta struct {
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	}
	e.mu.Lock()
	patch := struct {
		Metadata meta `json:"metadata"`
	}{meta{e.state.uid, map[string]string{power.BMCAnnotation: value}}}
	e.mu.Unlock()
	data, err := json.Marshal(patch)
	if err == nil {
		err = e.request(ctx, func(ctx context.Context) error { return e.node.PatchStatus(ctx, data) })
	}
	if err != nil && ctx.Err() != nil {
		return // ended by shutdown
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.metrics.requests.WithLabelValues("patch", outcome(err)).Inc()
	retry := e.state.annotated(value, err, e.options.steady(e.options.Clock.Now()))
	log := klog.FromContext(ctx).WithValues("node", e.options.NodeName, "annotation", power.BMCAnnotation, "value", value)
	if err != nil {
		log.Error(err, "Where the BMC is reached could not be reported: the chart's value detector.reportBMC gives the right", "retryAfter", retry.String())
		return
	}
	log.Info("Where the BMC is reached is reported")
}

// seeAnnotation takes in the Node as read.
func (s *state) seeAnnotation(node *corev1.Node) {
	s.bmc.onNode = node.Annotations[power.BMCAnnotation]
}
