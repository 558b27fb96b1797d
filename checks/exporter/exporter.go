package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/statefile"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/repairnote"
	"github.com/nodemend/nodemend/internal/serverclock"
)

const (
	// requestTimeout is the deadline of one request to the API server.
	requestTimeout = 15 * time.Second
	// stuckAfter is when a request counts as stuck in spite of its deadline.
	stuckAfter = 4 * requestTimeout

	// Limits in bytes, without the note for the technician; a Node is read by many and its
	// size matters.
	maxReason  = 128
	maxMessage = 1024

	success = "success"
)

// Options of an exporter. Those without a word on it are required.
type Options struct {
	// NodeName is the Node whose conditions are written.
	NodeName string
	// FieldManager is whose conditions these are in the Node's managedFields; "": a node's
	// detector's. Several detectors of one Node need several.
	FieldManager string
	// Heartbeat is the time between two writes while all conditions are False
	// and have been so for ten minutes; it is jittered by ten percent.
	Heartbeat time.Duration
	// ProblemHeartbeat is the same for all other times.
	ProblemHeartbeat time.Duration
	// Thresholds by the type of condition; one run is enough for others.
	Thresholds map[corev1.NodeConditionType]Thresholds
	// Latches are the types of condition that a log sets.
	Latches map[corev1.NodeConditionType]Latch
	// Absences are the reasons with which a problem is that something is not
	// there, by the type of condition. As long as it is not known to have ever
	// been there, such a problem is reported as Unknown.
	Absences map[corev1.NodeConditionType][]string
	// Milder are the reasons, by the type of condition, after which a problem with any
	// other reason is a new one, with a transition of its own.
	Milder map[corev1.NodeConditionType][]string
	// Named are the types of all conditions that the configuration names. Others that
	// the detector alone has written are removed from the Node; nil: none is.
	Named []corev1.NodeConditionType
	// Offline is whether nothing is to be read from or written to the API server.
	Offline bool
	// StateFile keeps what was reported; empty: nowhere.
	StateFile string
	// Restored is what the state file held at the start; zero: nothing.
	Restored statefile.State
	// Boot is when the node has booted, by Clock, and BootID the kernel's boot ID.
	Boot   time.Time
	BootID string
	// OnChange is told of changes, one at a time; nil: nobody is. It must not
	// block.
	OnChange func(Change)
	// Clock is the one by which monitors time their runs.
	Clock clock.Clock
	// Rand returns random numbers in [0, 1).
	Rand func() float64
	// Registerer takes the exporter's metrics, unless Metrics has them.
	Registerer prometheus.Registerer
	// Metrics are those of several exporters; nil: this one has its own.
	Metrics *Metrics
	// ServerClock corrects the times that are written; nil: as they are.
	ServerClock *serverclock.Clock
}

// Exporter writes conditions to a Node. Of what monitors report it takes the
// observations, not the events.
type Exporter struct {
	options Options
	node    Node
	metrics *Metrics
	// observed wakes Run, changed who writes the state file.
	observed, changed chan struct{}

	mu        sync.Mutex
	state     *state
	steps     serverclock.Steps
	running   bool
	busySince time.Time // zero while Run waits for something to do
}

// New returns an exporter that writes nothing before Run. client is one for the
// core/v1 API. It fails if the metrics are registered already.
func New(client rest.Interface, options Options) (*Exporter, error) {
	return NewFor(restNode{client, options.NodeName, options.manager()}, options)
}

// NewFor is New for a Node that is reached in another way.
func NewFor(node Node, options Options) (*Exporter, error) {
	if options.Metrics == nil {
		var err error
		if options.Metrics, err = NewMetrics(options.Registerer); err != nil {
			return nil, err
		}
	}
	return &Exporter{
		options:  options,
		node:     node,
		metrics:  options.Metrics,
		observed: make(chan struct{}, 1),
		changed:  make(chan struct{}, 1),
		state:    newState(options),
	}, nil
}

// Take takes in the observations of a report. It never waits for a request.
func (e *Exporter) Take(report *checks.Report) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookAtClocks(false)
	for _, c := range report.Observations {
		e.state.observe(observation{
			source:        report.Source,
			conditionType: corev1.NodeConditionType(c.Type),
			status:        corev1.ConditionStatus(c.Status),
			reason:        cut.Valid(c.Reason, maxReason),
			message:       repairnote.Bound(c.Message, maxMessage),
			at:            e.options.steady(c.At),
		})
	}
	e.tell()
	wake(e.observed)
}

// Demand takes in that all checks were asked to run: what they see in the next
// seconds is written at once, and the short heartbeat is kept for ten minutes.
func (e *Exporter) Demand() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.demand(e.options.steady(e.options.Clock.Now()))
	wake(e.observed)
}

// Conditions returns what is reported, in the order of the types.
func (e *Exporter) Conditions() []corev1.NodeCondition {
	e.mu.Lock()
	defer e.mu.Unlock()
	conditions := []corev1.NodeCondition{}
	for _, entry := range e.state.entries {
		if entry.shown.status != "" {
			conditions = append(conditions, entry.condition())
		}
	}
	slices.SortFunc(conditions, byType)
	return conditions
}

// tell passes on changes. The mutex is held.
func (e *Exporter) tell() {
	for _, c := range e.state.changes() {
		if e.options.OnChange != nil {
			e.options.OnChange(c)
		}
	}
	if e.state.dirty {
		wake(e.changed)
	}
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Healthy returns an error if Run is not running or makes no progress. An
// API server that can't be reached is no such error: a restart would not help.
func (e *Exporter) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.running:
		return errors.New("the exporter of conditions is not running")
	case !e.busySince.IsZero() && e.options.Clock.Since(e.busySince) > stuckAfter:
		return fmt.Errorf("the exporter of conditions hangs since %s: a request has a deadline of %s",
			e.busySince.UTC().Format(time.RFC3339), requestTimeout)
	}
	return nil
}

// Run writes conditions until ctx ends. It returns nil then.
func (e *Exporter) Run(ctx context.Context) error {
	e.setRunning(true)
	defer e.setRunning(false)
	stopSaving := e.startSaving(ctx)
	defer stopSaving()
	log := &outcomeLog{logger: klog.FromContext(ctx).WithValues("node", e.options.NodeName)}
	for ctx.Err() == nil {
		e.mu.Lock()
		e.busySince = e.options.Clock.Now()
		e.lookAtClocks(false)
		next := e.state.plan(e.options.steady(e.busySince))
		e.mu.Unlock()
		switch {
		case next.read:
			log.result("get", e.read(ctx))
		case next.patch != nil:
			log.result("patch", e.write(ctx, next.patch))
		case next.annotate != "":
			e.annotate(ctx, next.annotate)
		default:
			e.pause(ctx, next.wait)
		}
	}
	return nil
}

func (e *Exporter) setRunning(running bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = running
}

func (e *Exporter) pause(ctx context.Context, wait time.Duration) {
	e.idle()
	var elapsed <-chan time.Time
	if wait > 0 {
		timer := e.options.Clock.NewTimer(wait)
		defer timer.Stop()
		elapsed = timer.C()
	}
	select {
	case <-e.observed:
	case <-elapsed:
	case <-ctx.Done():
	}
}

func (e *Exporter) read(ctx context.Context) error {
	var node *corev1.Node
	var left []corev1.NodeCondition
	err := e.request(ctx, func(ctx context.Context) (err error) {
		node, err = e.node.Get(ctx)
		return err
	})
	err = e.settle(ctx, "get", err, func(now time.Time) {
		for _, write := range e.state.seed(node.UID, node.Status.Conditions, now) {
			e.metrics.foreign.WithLabelValues(string(write.conditionType)).Inc()
			klog.FromContext(ctx).Error(nil, "Somebody else writes a condition of the detector; is another node-problem-detector running?",
				"node", e.options.NodeName, "what", write.String(), "writers", otherWriters(node, write.conditionType, e.options.manager()))
		}
		left = e.state.findLeft(node, now)
		e.state.seeAnnotation(node)
		e.tell()
	})
	e.remove(ctx, node, left)
	return err
}

func (e *Exporter) write(ctx context.Context, p *patch) error {
	data, err := p.json()
	if err == nil {
		err = e.request(ctx, func(ctx context.Context) error { return e.node.PatchStatus(ctx, data) })
	}
	return e.settle(ctx, "patch", err, func(now time.Time) { e.state.acknowledge(p, now) })
}

func (e *Exporter) request(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return do(ctx)
}

func (e *Exporter) idle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busySince = time.Time{}
}

// settle tells the state how a request has ended. It returns err.
func (e *Exporter) settle(ctx context.Context, verb string, err error, succeeded func(now time.Time)) error {
	if err != nil && ctx.Err() != nil {
		return nil // ended by shutdown
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.options.Clock.Now()
	e.metrics.record(verb, outcome(err), now)
	e.lookAtClocks(err == nil && verb == "get" && e.state.asked)
	now = e.options.steady(now)
	if err != nil {
		e.state.fail(gone(err), now)
		return err
	}
	succeeded(now)
	return nil
}

// lookAtClocks tells the state what time it is; learned is whether the server was
// asked since the last step. The mutex is held.
func (e *Exporter) lookAtClocks(learned bool) {
	server := e.options.ServerClock
	if server == nil {
		return
	}
	if e.steps.Stepped(server) {
		e.state.step()
		learned = false
	}
	e.state.correct(server.Correction(), learned, server.Steady())
	e.state.answered = server.Answered()
}

// manager is whose conditions these are in the Node's managedFields.
func (o *Options) manager() string { return cmp.Or(o.FieldManager, fieldManager) }

// steady is a time of Clock by a clock that nobody sets.
func (o *Options) steady(t time.Time) time.Time {
	if o.ServerClock == nil {
		return t
	}
	return o.ServerClock.Steady().Add(-o.Clock.Since(t))
}

// gone reports whether err means that the Node that was read may exist no more:
// it is not found, or has another UID, which is immutable and so invalid.
func gone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err)
}

// outcome is the result of a request as one word.
func outcome(err error) string {
	if err == nil {
		return success
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "Unreachable"
}
