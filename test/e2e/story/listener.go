package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// Listener takes down each change of the conditions of a Node.
type Listener struct {
	log    io.Writer
	cancel context.CancelFunc
	done   chan struct{}
	// of the goroutine that listens, until done is closed
	last map[corev1.NodeConditionType]corev1.NodeCondition
	said []saying
	err  error
}

// saying is a change of the status of a condition.
type saying struct {
	at       time.Time
	from, to corev1.NodeCondition
}

// Listen listens until Stop. A line for each change goes to log, which takes several writers.
func Listen(ctx context.Context, api kubernetes.Interface, node string, log io.Writer) *Listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &Listener{log: log, cancel: cancel, done: make(chan struct{}), last: map[corev1.NodeConditionType]corev1.NodeCondition{}}
	go func() {
		defer close(l.done)
		for ctx.Err() == nil && l.err == nil {
			l.watch(ctx, api, node)
		}
	}()
	return l
}

// watch takes down changes until the watch ends, as watches do. What changes before the next one
// begins is seen by what that begins with.
func (l *Listener) watch(ctx context.Context, api kubernetes.Interface, node string) {
	w, err := api.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", node).String()})
	if err != nil {
		if ctx.Err() == nil {
			l.err = errors.Join(l.err, err)
		}
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if object, is := event.Object.(*corev1.Node); is {
			l.see(object)
		}
	}
}

func (l *Listener) see(object *corev1.Node) {
	for _, c := range object.Status.Conditions {
		l.hear(c)
	}
	for conditionType := range l.last {
		if c := Condition(object, conditionType); c.Status == "" {
			l.hear(c)
		}
	}
}

func (l *Listener) hear(c corev1.NodeCondition) {
	old := l.last[c.Type]
	l.last[c.Type] = c
	if c.Status != old.Status || c.Reason != old.Reason || c.Message != old.Message {
		l.Note(string(c.Type), string(c.Status), c.Reason, c.Message)
	}
	if c.Status != old.Status {
		l.said = append(l.said, saying{time.Now(), old, c})
	}
}

// Note writes a line, with the time, for what else has happened.
func (l *Listener) Note(what ...string) {
	_, _ = fmt.Fprintln(l.log, time.Now().UTC().Format(time.RFC3339)+"\t"+strings.Join(what, "\t")) // at worst it is not kept
}

// Stop ends it.
func (l *Listener) Stop() error {
	l.cancel()
	<-l.done
	return l.err
}

// FalseAlarms are all that was said of these conditions of a healthy Node and was not right, and
// changes how often a status has changed. That a check can't tell is right only before it has seen
// enough for the first time. It is called after Stop.
func (l *Listener) FalseAlarms(conditions []corev1.NodeConditionType) (alarms []string, changes int) {
	for _, s := range l.said {
		if !slices.Contains(conditions, s.to.Type) {
			continue
		}
		if s.from.Status != "" {
			changes++
		}
		if s.to.Status == corev1.ConditionTrue || s.from.Status == corev1.ConditionFalse {
			alarms = append(alarms, fmt.Sprintf("%s: %s after %s", s.at.UTC().Format(time.TimeOnly), Describe(s.to), s.from.Status))
		}
	}
	return alarms, changes
}
