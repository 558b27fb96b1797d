package exporter

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/checks/statefile"
)

// watchful is for how long the short heartbeat is kept after a change of status
// and after all checks were asked to run: the controller needs fresh evidence to
// call a node recovered.
const watchful = 10 * time.Minute

// demandedFor is for how long what is seen is written at once after all checks
// were asked to run.
const demandedFor = 15 * time.Second

// Gaps between two writes that nothing but a change of status, or of a reason,
// calls for: a condition that flaps must not be a load.
const (
	statusGap = time.Second
	reasonGap = 5 * time.Second
)

// freshFor is how old a heartbeat on the Node may become if there is a later one. It
// is three quarters of what the controller believes: a write for each check that is
// out of step with the others would be a load.
func freshFor(status corev1.ConditionStatus) time.Duration {
	if status == corev1.ConditionFalse {
		return 315 * time.Second
	}
	return 90 * time.Second
}

// observation is what one run of a check has seen.
type observation struct {
	source        string
	conditionType corev1.NodeConditionType
	status        corev1.ConditionStatus
	reason        string
	message       string
	// at is when the run started.
	at time.Time
}

// entry is one condition.
type entry struct {
	// latest is what the latest run has seen.
	latest observation
	// streak is how many runs in a row have seen the status of latest, and
	// streakAt when the first of them started; enoughAt is when the one started
	// that reached the threshold, if any has.
	streak             int
	streakAt, enoughAt time.Time
	// alike is how many of the latest of them gave the same reason, otherwise how many
	// another one than is reported, and grave how many none of the milder ones.
	alike, otherwise, grave int

	// shown is what is reported; nothing while shown.status is empty.
	shown observation
	// since is the condition's lastTransitionTime; seenSince is whether this
	// process has observed what began then.
	since     time.Time
	seenSince bool
	// changed is whether this process has seen two statuses. If so, since is what
	// it saw; if not, since gives way to what the Node has. provisional is whether
	// what is shown would have needed more, had it been known what was before.
	changed, provisional bool
	// seenLogged is whether any run of this process has seen a problem of a log.
	seenLogged bool
	// told is what was last told to whom changes concern.
	told told

	// stored is the condition as the Node has it, as far as known; nil if it has
	// none. attempted is what was last sent; it may have arrived.
	stored, attempted *corev1.NodeCondition
	// confirmed is whether this process has written the condition.
	confirmed bool
}

// state decides what is to be written when. Times are passed in; those of
// observations and of the plan come from the same clock, which is never set. What
// is observed is kept by the API server's clock, as far as that is known.
type state struct {
	// manager is whose conditions these are in the Node's managedFields.
	manager          string
	heartbeat        time.Duration
	problemHeartbeat time.Duration
	rand             func() float64
	thresholds       map[corev1.NodeConditionType]Thresholds
	latches          map[corev1.NodeConditionType]Latch
	absences         map[corev1.NodeConditionType][]string
	milder           map[corev1.NodeConditionType][]string
	// boot is when the node has booted and started when this process has, by the API
	// server's clock.
	boot, started time.Time
	bootID        string
	// named are the conditions that the configuration names; nil: that is not known.
	// leftAt is when the Node is to be read since one may have to be removed from it,
	// leftRetryAt when that may be tried again after a failure.
	named               map[corev1.NodeConditionType]bool
	leftAt, leftRetryAt time.Time
	// offline is whether there is no Node to read and write.
	offline bool

	// seeded is whether the Node was read and, as far as known, still exists.
	seeded bool
	uid    types.UID
	readAt time.Time
	// onNode are the conditions that the Node had when it was first read; nil
	// until then. inFile are those that the state file had.
	onNode  map[corev1.NodeConditionType]corev1.NodeCondition
	inFile  map[corev1.NodeConditionType]statefile.Condition
	fileUID types.UID
	// there are the conditions, of those that know absences, whose subject was seen.
	there map[corev1.NodeConditionType]bool

	entries map[corev1.NodeConditionType]*entry
	// dirty is whether the state file is to be written.
	dirty bool
	// offset is added to times of observations to get the API server's time. looked is
	// when it was last set, by that time.
	offset time.Duration
	looked time.Time
	// answered is whether the API server had answered when it was last set.
	answered bool
	// doubtful is whether the node's clock was set, or the machine slept, since the API
	// server's time was learned; doubtfulFrom is the last time before that, and asked
	// whether the server is being asked.
	doubtful, asked bool
	doubtfulFrom    time.Time

	// writtenAt is when conditions were last written.
	writtenAt   time.Time
	heartbeatAt time.Time
	beating     bool // after the first heartbeat was planned
	// demandedAt is when all checks were last asked to run.
	demandedAt time.Time
	failures   int
	retryAt    time.Time
	// bmc is the annotation about the Node's BMC.
	bmc annotation
}

func newState(options Options) *state {
	s := &state{
		manager:          options.manager(),
		heartbeat:        options.Heartbeat,
		problemHeartbeat: options.ProblemHeartbeat,
		rand:             options.Rand,
		thresholds:       options.Thresholds,
		latches:          options.Latches,
		absences:         options.Absences,
		milder:           options.Milder,
		boot:             options.steady(options.Boot),
		started:          options.steady(options.Clock.Now()),
		bootID:           options.BootID,
		offline:          options.Offline,
		entries:          map[corev1.NodeConditionType]*entry{},
		inFile:           map[corev1.NodeConditionType]statefile.Condition{},
		there:            map[corev1.NodeConditionType]bool{},
	}
	if options.Named != nil {
		s.named = map[corev1.NodeConditionType]bool{}
	}
	for _, t := range options.Named {
		s.named[t] = true
	}
	for _, t := range options.Restored.SeenThere {
		s.there[corev1.NodeConditionType(t)] = true
	}
	for _, c := range options.Restored.Conditions {
		s.inFile[corev1.NodeConditionType(c.Type)] = c
	}
	s.fileUID = options.Restored.NodeUID
	return s
}

// observe takes in the result of a run.
func (s *state) observe(o observation) {
	o.at = o.at.Add(s.offset)
	e := s.entries[o.conditionType]
	if e == nil {
		e = &entry{}
		s.entries[o.conditionType] = e
		s.findStored(e, o.conditionType)
	}
	if e.latest.status != o.status {
		e.streak, e.streakAt, e.enoughAt, e.alike, e.otherwise = 0, o.at, time.Time{}, 0, 0
	}
	if e.latest.reason != o.reason {
		e.alike = 0
	}
	e.seenLogged = e.seenLogged || s.logged(o)
	e.latest = o
	e.streak++
	e.alike++
	e.otherwise++
	e.grave++
	if o.status != corev1.ConditionTrue || slices.Contains(s.milder[o.conditionType], o.reason) {
		e.grave = 0
	}
	if e.gives(s.before(e).reason) {
		e.otherwise = 0
	}
	if e.streak == s.threshold(o) {
		e.enoughAt = o.at
	}
	s.settle(e)
}

// seed takes in the Node as read and says what somebody else has done to our
// conditions. For a condition that this process has not seen change, an equal
// status of the Node's keeps its transition time.
func (s *state) seed(uid types.UID, conditions []corev1.NodeCondition, now time.Time) (foreign []foreignWrite) {
	first, same := s.onNode == nil, s.uid == uid
	read := make(map[corev1.NodeConditionType]corev1.NodeCondition, len(conditions))
	for _, c := range conditions {
		read[c.Type] = c
	}
	s.seeded, s.uid, s.readAt = true, uid, now
	if first && s.fileUID == "" {
		s.fileUID = uid // it was written before there was a Node to be read
	}
	if first || !same {
		s.onNode, s.dirty = read, true
	}
	for conditionType, e := range s.entries {
		if same && !first {
			foreign = append(foreign, e.verify(conditionType, read)...)
			continue
		}
		e.stored, e.attempted, e.confirmed = nil, nil, false
		s.findStored(e, conditionType)
		s.rejudge(e, first)
	}
	return foreign
}

// rejudge fits e to what has just been learned of the time before this process;
// first is whether nothing was known of the Node until now.
func (s *state) rejudge(e *entry, first bool) {
	known := s.restored(e.latest.conditionType)
	same := known.status != "" && known.status == e.shown.status
	switch {
	case e.changed:
	case same && (known.status != corev1.ConditionTrue || known.reason == "" || known.reason == e.shown.reason):
		e.since, e.seenSince = known.since, false
	case same, first && (known.status != "" || !e.seenSince):
		e.shown, e.otherwise = observation{}, e.alike
		if e.gives(known.reason) {
			e.otherwise = 0
		}
		s.settle(e)
	}
}

// gives reports whether the latest run gave the reason, which is "" if none is known.
func (e *entry) gives(reason string) bool { return reason == "" || reason == e.latest.reason }

func (s *state) findStored(e *entry, conditionType corev1.NodeConditionType) {
	if c, found := s.onNode[conditionType]; found {
		e.stored = &c
	}
}

// step takes in that the node's clock was set since the last call of look, or that
// the machine slept: only the API server can tell which of the two.
func (s *state) step() {
	if !s.doubtful {
		s.doubtful, s.doubtfulFrom = true, s.looked
	}
	s.asked = false
}

// correct sets the difference between the API server's time and the clock of
// observations. Until the server has answered, what was observed is corrected, too.
// After a step the difference stays until learned is true: the server was asked
// since. Then what has been observed since the step is corrected. Nothing else is,
// even if the server's own clock was set.
func (s *state) correct(offset time.Duration, learned bool, now time.Time) {
	if s.doubtful && !learned && s.answered {
		return
	}
	difference := offset - s.offset
	if difference.Abs() < time.Second { // what passes between two looks at a clock
		difference = 0
	}
	all, since := !s.answered, s.doubtful
	s.offset += difference
	s.looked = now.Add(s.offset)
	s.doubtful = s.doubtful && !learned
	if difference == 0 || !all && !since {
		return
	}
	shift := func(t *time.Time) {
		if !t.IsZero() && (all || t.After(s.doubtfulFrom)) {
			*t = t.Add(difference)
		}
	}
	shift(&s.boot)
	shift(&s.started)
	for _, e := range s.entries {
		shift(&e.latest.at)
		shift(&e.shown.at)
		shift(&e.streakAt)
		shift(&e.enoughAt)
		if e.seenSince {
			shift(&e.since)
		}
		s.dirty = true
	}
}

// demand takes in that all checks were asked to run: what they see from now on
// is written at once.
func (s *state) demand(now time.Time) { s.demandedAt = now }

// plan is the next thing to do. If it is neither read, patch nor annotate, wait is how
// long nothing is to be done unless there is a new observation; zero is no limit.
type plan struct {
	read  bool
	patch *patch
	// annotate is the value that the annotation about the BMC is to have; "": none.
	annotate string
	wait     time.Duration
}

func (s *state) plan(now time.Time) plan {
	if s.offline {
		return plan{}
	}
	next := s.planAnnotation(s.planWrites(now), now)
	if wait := s.leftAt.Sub(now); !next.read && next.patch == nil && !s.leftAt.IsZero() {
		switch {
		case s.retryAt.After(now):
		case wait <= 0:
			s.asked = true
			return plan{read: true}
		case next.wait == 0 || wait < next.wait:
			next.wait = wait
		}
	}
	return next
}

// planWrites is the plan for what is reported.
func (s *state) planWrites(now time.Time) plan {
	if wait := s.retryAt.Sub(now); wait > 0 {
		return plan{wait: wait}
	}
	if !s.seeded {
		s.asked = true
		return plan{read: true}
	}
	var pause time.Duration // before what is urgent may be written
	urgent := false
	wait := s.heartbeatAt.Sub(now)
	p := &patch{uid: s.uid}
	for _, e := range s.entries {
		if e.shown.status == "" {
			continue
		}
		c := e.condition()
		switch {
		case !e.confirmed || e.stored == nil || differs(c, *e.stored), s.demanded(e):
			gap := s.writtenAt.Add(s.gap(e, c)).Sub(now)
			if !urgent || gap < pause {
				pause = gap
			}
			urgent = true
		case c.LastHeartbeatTime.Equal(&e.stored.LastHeartbeatTime):
			continue // its check has not run again
		}
		if e.stored != nil { // a check that runs rarely may have missed one by a hair
			wait = min(wait, e.stored.LastHeartbeatTime.Add(freshFor(e.stored.Status)).Sub(now.Add(s.offset)))
		}
		p.conditions = append(p.conditions, c)
	}
	switch {
	case len(p.conditions) == 0:
		return plan{}
	case !urgent && wait > 0:
		return plan{wait: wait}
	case urgent && min(pause, wait) > 0:
		return plan{wait: min(pause, wait)}
	case !urgent && now.Sub(s.readAt) >= s.heartbeat*4/5:
		s.asked = true
		return plan{read: true} // has anybody else written in between?
	case s.doubtful:
		s.asked = true
		return plan{read: true} // what time is it?
	}
	slices.SortFunc(p.conditions, byType)
	for _, c := range p.conditions {
		s.entries[c.Type].attempted = &c
	}
	return plan{patch: p}
}

// gap is the least time between two writes if c is why there is to be one.
func (s *state) gap(e *entry, c corev1.NodeCondition) time.Duration {
	if e.confirmed && e.stored != nil && e.stored.Status == c.Status && e.stored.LastTransitionTime.Equal(&c.LastTransitionTime) && !s.demanded(e) {
		return reasonGap
	}
	return statusGap
}

// demanded reports whether e was seen shortly after all checks were asked to
// run, and is not written yet.
func (s *state) demanded(e *entry) bool {
	if written := e.stored.LastHeartbeatTime; s.demandedAt.IsZero() || written.Time.Equal(seconds(e.shown.at).Time) {
		return false
	}
	after := e.shown.at.Sub(s.demandedAt.Add(s.offset))
	return after >= 0 && after < demandedFor
}

// differs reports whether the change from b to a is to be written at once.
func differs(a, b corev1.NodeCondition) bool {
	return a.Status != b.Status || a.Reason != b.Reason || !a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// acknowledge takes in that p has been written.
func (s *state) acknowledge(p *patch, now time.Time) {
	for _, c := range p.conditions {
		e := s.entries[c.Type]
		e.stored, e.attempted, e.confirmed = &c, nil, true
	}
	s.failures = 0
	s.writtenAt = now
	interval := s.interval(now)
	wait := jitter(interval, s.rand)
	if !s.beating && interval == s.heartbeat {
		// Detectors that were started together must not beat together.
		wait = time.Duration(float64(interval) * s.rand())
	}
	s.beating = true
	s.heartbeatAt = now.Add(wait)
}

// interval is the time to the next heartbeat.
func (s *state) interval(now time.Time) time.Duration {
	if !s.demandedAt.IsZero() && now.Sub(s.demandedAt) < watchful {
		return s.problemHeartbeat
	}
	for _, e := range s.entries {
		age := now.Add(s.offset).Sub(e.since)
		if e.shown.status != "" && (e.shown.status != corev1.ConditionFalse || age.Abs() < watchful) {
			return s.problemHeartbeat
		}
	}
	return s.heartbeat
}

// fail takes in that a read or a patch has failed, and whether that was since
// the Node that was read does not exist any more.
func (s *state) fail(gone bool, now time.Time) {
	if gone {
		s.seeded = false
	}
	s.failures++
	s.retryAt = now.Add(backoff(s.failures, s.rand))
}

// snapshot is what the state file is to hold.
func (s *state) snapshot() (conditions []statefile.Condition) {
	for _, e := range s.entries {
		if e.shown.status != "" && !s.unsure(e) {
			conditions = append(conditions, statefile.Condition{
				BootID: s.bootID, Type: string(e.shown.conditionType), Status: e.shown.status, Reason: e.shown.reason, Message: e.shown.message,
				LastTransitionTime: seconds(e.since).Time,
			})
		}
	}
	for conditionType, c := range s.inFile { // what this process has not seen yet
		if s.former() {
			break
		}
		if e := s.entries[conditionType]; e == nil || e.shown.status == "" {
			conditions = append(conditions, c)
		}
	}
	slices.SortFunc(conditions, statefile.ByType)
	return conditions
}

// unsure reports whether what is shown of e would have needed more, had it been known what was
// before, and that is not known yet. It is nothing to be restored: it would stand against what the
// Node has, as if a check had seen that end.
func (s *state) unsure(e *entry) bool { return e.provisional && s.onNode == nil }

// seenThere is what the state file is to hold of that.
func (s *state) seenThere() (seen []string) {
	for t := range s.there {
		seen = append(seen, string(t))
	}
	slices.Sort(seen)
	return seen
}

func (e *entry) condition() corev1.NodeCondition {
	return corev1.NodeCondition{
		Type:               e.shown.conditionType,
		Status:             e.shown.status,
		LastHeartbeatTime:  seconds(e.shown.at),
		LastTransitionTime: seconds(e.since),
		Reason:             e.shown.reason,
		Message:            e.shown.message,
	}
}

// seconds is the time as the API keeps it: rounded down, so that an observation
// never seems later than it was.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
