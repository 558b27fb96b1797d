// Package events writes Kubernetes events about a node: what monitors report as
// temporary problems, and changes of conditions.
package events

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	npd "k8s.io/node-problem-detector/pkg/types"
	"k8s.io/node-problem-detector/pkg/util"

	"github.com/nodemend/nodemend/checks/exporter"
)

// Recorder writes events. It is an exporter of node-problem-detector (NPD) for
// the events of what monitors report. It never waits for the API server: events
// that come too fast, or while it can't be reached for long, are dropped.
type Recorder struct {
	node        *corev1.ObjectReference
	broadcaster record.EventBroadcaster

	mu        sync.Mutex
	recorders map[string]record.EventRecorder
}

var _ npd.Exporter = (*Recorder)(nil)

// NewRecorder returns a recorder for the Node of this name, which writes to a
// namespace; empty: default. Stop it at the end.
func NewRecorder(client corev1client.EventsGetter, nodeName, namespace string) *Recorder {
	r := &Recorder{
		// As its kubelet does, events name the Node by its name as UID: that is
		// where kubectl describe looks for them.
		node: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Node", Name: nodeName, UID: types.UID(nodeName), Namespace: namespace,
		},
		broadcaster: record.NewBroadcaster(),
		recorders:   map[string]record.EventRecorder{},
	}
	r.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events(namespace)})
	return r
}

// ExportProblems writes the events of status.
func (r *Recorder) ExportProblems(status *npd.Status) {
	for _, event := range status.Events {
		r.write(status.Source, event)
	}
}

// Changed writes an event about a condition's change.
func (r *Recorder) Changed(c exporter.Change) {
	if !c.Confirmed {
		r.write(c.Source, util.GenerateConditionChangeEvent(c.Type, npd.ConditionStatus(c.Status), c.Reason, c.Message, c.At))
	}
}

func (r *Recorder) write(source string, event npd.Event) {
	r.mu.Lock()
	recorder, found := r.recorders[source]
	if !found {
		recorder = r.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: source, Host: r.node.Name})
		r.recorders[source] = recorder
	}
	r.mu.Unlock()
	recorder.Event(r.node, util.ConvertToAPIEventType(event.Severity), event.Reason, event.Message)
}

// Stop ends the recorder. What has not been written yet is lost.
func (r *Recorder) Stop() { r.broadcaster.Shutdown() }
