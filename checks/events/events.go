// Package events writes Kubernetes events about a node: what monitors report as
// temporary problems, and changes of conditions.
package events

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/repairnote"
)

// maxMessage bounds the message of an event, in bytes: the admission policy of events
// accepts no more.
const maxMessage = 16 << 10

// Recorder writes events. It never waits for the API server: events
// that come too fast, or while it can't be reached for long, are dropped.
type Recorder struct {
	node        *corev1.ObjectReference
	broadcaster record.EventBroadcaster

	mu        sync.Mutex
	recorders map[string]record.EventRecorder
}

// NewRecorder returns a recorder for the Node of this name, which writes to a
// namespace; empty: default. Stop it at the end: it does not end with ctx, which carries the logger.
func NewRecorder(ctx context.Context, core rest.Interface, nodeName, namespace string) *Recorder {
	r := &Recorder{
		// As its kubelet does, events name the Node by its name as UID: that is
		// where kubectl describe looks for them.
		node: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Node", Name: nodeName, UID: types.UID(nodeName), Namespace: namespace,
		},
		broadcaster: record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx))),
		recorders:   map[string]record.EventRecorder{},
	}
	r.broadcaster.StartRecordingToSink(coreapi.Events(core))
	return r
}

// Take writes the events of a report, as warnings.
func (r *Recorder) Take(report *checks.Report) {
	for _, event := range report.Events {
		r.write(report.Source, corev1.EventTypeWarning, event.Reason, event.Message)
	}
}

// Changed writes an event about a condition's change, in node-problem-detector's words.
func (r *Recorder) Changed(c exporter.Change) {
	if c.Confirmed {
		return
	}
	eventType := corev1.EventTypeNormal
	if c.Status == corev1.ConditionTrue {
		eventType = corev1.EventTypeWarning
	}
	r.write(c.Source, eventType, c.Reason, fmt.Sprintf("Node condition %s is now: %s, reason: %s, message: %q", c.Type, c.Status, c.Reason, repairnote.Said(c.Message)))
}

func (r *Recorder) write(source, eventType, reason, message string) {
	r.mu.Lock()
	recorder, found := r.recorders[source]
	if !found {
		recorder = r.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: source, Host: r.node.Name})
		r.recorders[source] = recorder
	}
	r.mu.Unlock()
	recorder.Event(r.node, eventType, reason, cut.Valid(message, maxMessage))
}

// Stop ends the recorder. What has not been written yet is lost.
func (r *Recorder) Stop() { r.broadcaster.Shutdown() }
