package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/cut"
)

// Reasons of conditions that alerts make.
const (
	ReasonNoAlertFiring = "NoAlertFiring"
	// ReasonAlertFiring is that of a problem if the configuration gives none.
	ReasonAlertFiring = "AlertFiring"
	// What can't be told.
	ReasonAlertSilenced    = "AlertSilenced"
	ReasonAlertNotRepeated = "AlertNotRepeated"
	ReasonAlertEndNotSeen  = "AlertEndNotSeen"
	ReasonEndNotConfirmed  = "AlertEndNotConfirmed"
	ReasonWatchdogMissing  = "WatchdogMissing"
	ReasonRuleNotEvaluated = "AlertRuleNotEvaluated"
	ReasonSourceNotRead    = "AlertsNotRead"
)

const (
	// vanishing is how much of the time for which an alert was promised has to be left when it is
	// gone, so that it has resolved and was not just forgotten. Dates have whole seconds.
	vanishing = 2 * time.Second
	// maxText bounds the message of one alert, in bytes.
	maxText = 400
	// maxNamed is how many alerts without a node the log tells of at once.
	maxNamed = 20
)

// source is where alerts are read.
type source interface {
	// String is what people call it.
	String() string
	// read returns what it says now.
	read(ctx context.Context) (answer, error)
}

// answer is what a source has said.
type answer struct {
	alerts []alert
	// now is the time by its clock, less than a second before it was so.
	now time.Time
	// process is when it was started: it keeps alerts in memory only, or forgets for how long they
	// are pending.
	process time.Time
	// rules are those that it evaluates itself; nil: somebody else sends the alerts.
	rules []ruleOfAlerts
	// listensOnly is whether it does not tell of an alert that is silenced, and partial whether it
	// has not heard long enough to tell what does not fire.
	listensOnly, partial bool
	// incomplete is why more may fire than it says; "": that is all.
	incomplete string
}

// alert is one of a source's.
type alert struct {
	labels, annotations map[string]string
	// id is the same for as long as it is the same alert.
	id string
	// until is when it ends unless it is repeated, by the source's clock; zero: nobody has to
	// repeat it.
	until time.Time
	state alertState
}

type alertState int

const (
	firing alertState = iota
	// silenced or inhibited, or nobody has looked whether it is.
	silenced
	// stale fired when it was last looked at, which is too long ago.
	stale
	// resolving was said to have resolved, which may mean only that nobody has repeated it.
	resolving
	// pending may fire later.
	pending
)

// alerts makes conditions of alerts.
type alerts struct {
	config   config.Alerts
	source   source
	webhook  *webhook // the source, if it listens
	rows     []row
	watchdog []config.Matcher
	// nameless is how many alerts of the table name no node that there is.
	nameless prometheus.Gauge
	seen     alertMemory
}

// row is one of the table.
type row struct {
	config.AlertCondition
	matchers []config.Matcher
}

// subject is a condition of a node.
type subject struct{ node, conditionType string }

// alertMemory is what is known from earlier answers. It is empty after a start and after a gap.
type alertMemory struct {
	// process and now are those of the latest answer.
	process, now time.Time
	// promised are the alerts that have begun and not ended, as they were last seen, by their IDs.
	promised map[subject]map[string]alert
	// unseen is why nobody knows that an alert has resolved that is not there any more, by its
	// ID; "": one that a former process has reported.
	unseen map[subject]map[string]string
	// pending are those that have not begun, in the latest answer.
	pending map[subject]map[string]bool
	// quiet is since when it was known in each answer that nothing fires.
	quiet map[subject]time.Time
	// met are those of which it is known whether something was reported before.
	met map[subject]bool
	// nameless are the alerts of which the log tells that they name no node.
	nameless map[string]bool
}

func newAlerts(c config.Alerts, registerer prometheus.Registerer, now clock.PassiveClock) (*alerts, error) {
	a := &alerts{config: c, watchdog: config.Matchers(c.Watchdog), nameless: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "nodemend_detector_alerts_without_node",
		Help: "How many alerts that are to make a condition name no node that there is.",
	})}
	if err := registerer.Register(a.nameless); err != nil {
		return nil, fmt.Errorf("registering the metric of alerts: %w", err)
	}
	for _, c := range c.Conditions {
		if c.NodeLabel == "" {
			c.NodeLabel = "node"
		}
		if c.Reason == "" {
			c.Reason = ReasonAlertFiring
		}
		a.rows = append(a.rows, row{c, config.Matchers(c.Matchers)})
	}
	switch {
	case c.Prometheus.URL != "":
		a.source = prometheusServer{c.Prometheus}
	case c.Alertmanager.URL != "":
		a.source = alertmanager{c.Alertmanager}
	default:
		a.webhook = &webhook{Webhook: c.Webhook, clock: now, watchdog: a.watchdog, known: map[string]*heard{}, wanted: func(labels map[string]string) bool {
			return slices.ContainsFunc(a.rows, func(r row) bool { return matches(r.matchers, labels) })
		}}
		a.source = a.webhook
	}
	a.forget()
	return a, nil
}

func (a *alerts) String() string { return "alerts" }

func (a *alerts) settings() config.RemoteRun { return a.config.RemoteRun }

func (a *alerts) types(node) []string { return a.config.Types() }

// serve implements listener.
func (a *alerts) serve(ctx context.Context) error {
	if a.webhook == nil {
		return nil
	}
	return a.webhook.serve(ctx)
}

func (a *alerts) look(ctx context.Context, nodes []node) found {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout.Duration)
	defer cancel()
	answer, err := a.source.read(ctx)
	if err != nil {
		return a.unread(err, nodes)
	}
	found, nameless := a.judge(answer, nodes)
	a.nameless.Set(float64(len(nameless)))
	fresh := slices.DeleteFunc(slices.Sorted(maps.Keys(nameless)), func(name string) bool { return a.seen.nameless[name] })
	if len(fresh) > 0 {
		klog.FromContext(ctx).Info("Alerts that are to make a condition name no node that there is", "alerts", fresh[:min(len(fresh), maxNamed)], "new", len(fresh), "all", len(nameless))
	}
	a.seen.nameless = nameless
	return found
}

// unread is what is found where the alerts could not be read.
func (a *alerts) unread(err error, nodes []node) found {
	clear(a.seen.quiet)
	f := found{}
	for _, n := range nodes {
		for _, t := range a.config.Types() {
			f.add(n.name, t, checks.CannotTell(ReasonSourceNotRead, fmt.Sprintf("the %s can't be read: %s", a.source, cut.Head(cut.Plain(err.Error()), maxText))))
		}
	}
	return f
}

// forget begins anew: what ended meanwhile, and how, is not known.
func (a *alerts) forget() {
	a.seen = alertMemory{
		promised: map[subject]map[string]alert{}, pending: map[subject]map[string]bool{}, unseen: map[subject]map[string]string{}, quiet: map[subject]time.Time{}, met: map[subject]bool{},
		nameless: a.seen.nameless,
	}
}

// selected is an alert, and the row that selects it.
type selected struct {
	*alert
	*row
}

// judge returns what an answer says of nodes, and the alerts that name none.
func (a *alerts) judge(answer answer, nodes []node) (f found, nameless map[string]bool) {
	if !answer.process.Equal(a.seen.process) || answer.now.Before(a.seen.now) {
		a.gap()
	}
	a.seen.process, a.seen.now = answer.process, answer.now

	blind := a.blind(&answer)
	there, nameless := a.about(answer.alerts, nodes)
	f = found{}
	for _, n := range nodes {
		for _, t := range a.config.Types() {
			s := subject{n.name, t}
			if answer.partial && len(there[s]) == 0 {
				continue // nothing is known: what was reported before stands
			}
			a.meet(s, n, len(there[s]) > len(in(there[s], pending)))
			f.add(n.name, t, a.of(s, there[s], blind[t], &answer))
		}
	}
	a.drop(nodes)
	return f, nameless
}

// blind are the types of condition of which an answer does not tell that nothing fires.
func (a *alerts) blind(answer *answer) map[string]*checks.Result {
	blind := map[string]*checks.Result{}
	alive := slices.ContainsFunc(answer.alerts, func(one alert) bool { return one.state < stale && matches(a.watchdog, one.labels) })
	for i := range a.rows {
		row := &a.rows[i]
		var reason, message string
		switch {
		case answer.rules != nil:
			reason, message = answer.blindRules(row)
		case answer.incomplete != "":
			reason, message = ReasonSourceNotRead, "more alerts may fire than were sent: "+answer.incomplete
		case !alive:
			reason, message = ReasonWatchdogMissing, fmt.Sprintf("the alert that always fires (%s) does not, so nobody knows whether others would", strings.Join(a.config.Watchdog, ", "))
		}
		if reason != "" {
			r := checks.CannotTell(reason, cut.Valid(message, maxText))
			blind[row.Type] = &r
		}
	}
	return blind
}

// matches reports whether labels are those that all of the matchers ask for.
func matches(matchers []config.Matcher, labels map[string]string) bool {
	for _, m := range matchers {
		if !m.Matches(labels[m.Name]) {
			return false
		}
	}
	return true
}

// about sorts alerts by what they are about.
func (a *alerts) about(all []alert, nodes []node) (there map[subject][]selected, nameless map[string]bool) {
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.name] = true
	}
	there, nameless = map[subject][]selected{}, map[string]bool{}
	for i := range all {
		for r := range a.rows {
			one, row := &all[i], &a.rows[r]
			if !matches(row.matchers, one.labels) {
				continue
			}
			name := one.labels[row.NodeLabel]
			if !names[name] {
				nameless[fmt.Sprintf("%s %s=%q", cut.Plain(one.labels["alertname"]), row.NodeLabel, cut.Plain(name))] = true
				continue
			}
			s := subject{name, row.Type}
			there[s] = append(there[s], selected{one, row})
		}
	}
	return there, nameless
}

// gap takes in that the source may have forgotten alerts since the latest answer, or was
// never asked.
func (a *alerts) gap() {
	before := a.seen
	a.forget()
	a.seen.met = before.met
	a.seen.unseen = before.unseen
	for s, promised := range before.promised {
		for id := range promised {
			a.seen.miss(s, id, ReasonAlertEndNotSeen)
		}
	}
}

// miss takes in that nobody has seen an alert resolve, and why.
func (m *alertMemory) miss(s subject, id, why string) {
	if m.unseen[s] == nil {
		m.unseen[s] = map[string]string{}
	}
	m.unseen[s][id] = why
}

// why is the reason for which it is not known that all alerts of a subject have resolved; "" if
// it is.
func (m *alertMemory) why(s subject) (why string) {
	for _, one := range m.unseen[s] {
		if why != ReasonAlertNotRepeated {
			why = one
		}
	}
	return why
}

// meet takes in what stood on the Node before this process has reported anything. What fires now is
// taken for what it was about.
func (a *alerts) meet(s subject, n node, there bool) {
	if a.seen.met[s] {
		return
	}
	a.seen.met[s] = true
	c, stands := n.conditions[s.conditionType]
	switch {
	case !stands || c.Status == corev1.ConditionFalse || there:
	case c.Reason == ReasonAlertNotRepeated:
		a.seen.miss(s, "", ReasonAlertNotRepeated)
	default:
		a.seen.miss(s, "", ReasonAlertEndNotSeen)
	}
}

// of returns what is to be said of a subject. there are the alerts about it; blind is why it says
// nothing that there are none, nil if it does.
func (a *alerts) of(s subject, there []selected, blind *checks.Result, answer *answer) checks.Result {
	a.followEnds(s, there, blind != nil, answer)
	if counting := in(there, firing); len(counting) > 0 {
		delete(a.seen.quiet, s)
		return checks.Problem(reasons(counting), checks.Listed(messages(counting)))
	}
	for _, unsure := range []struct {
		state        alertState
		reason, text string
	}{
		{silenced, ReasonAlertSilenced, "silenced or inhibited, which is no recovery: "},
		{stale, ReasonRuleNotEvaluated, "fired when its rule was evaluated for the last time: "},
		{resolving, ReasonEndNotConfirmed, "has resolved, or was not repeated, which the alert that always fires has to tell: "},
	} {
		if some := in(there, unsure.state); len(some) > 0 {
			delete(a.seen.quiet, s)
			return checks.CannotTell(unsure.reason, unsure.text+checks.Listed(messages(some)))
		}
	}
	if blind != nil {
		delete(a.seen.quiet, s)
		return *blind
	}
	why := a.seen.why(s)
	if why == "" {
		return checks.Healthy(ReasonNoAlertFiring, "no alert about this node fires")
	}
	return a.wait(s, why, len(there) > 0, answer)
}

// in are those of a state.
func in(all []selected, state alertState) (some []selected) {
	for _, one := range all {
		if one.state == state {
			some = append(some, one)
		}
	}
	return some
}

// followEnds takes in which alerts about a subject are there, and how those ended that are not.
// While it is blind, those whose rule is not evaluated have not.
func (a *alerts) followEnds(s subject, there []selected, blind bool, answer *answer) {
	promised, waits, begun := map[string]alert{}, map[string]bool{}, map[string]bool{}
	for _, one := range there {
		if one.state == pending {
			waits[one.id] = true
			if name := one.labels["alertname"]; !a.seen.pending[s][one.id] {
				begun[name] = true
			}
			continue
		}
		promised[one.id] = *one.alert
		delete(a.seen.unseen[s], one.id) // how it ends will be seen
		if answer.listensOnly {
			delete(a.seen.unseen[s], "") // all that fire have been sent again
		}
	}
	for id, gone := range a.seen.promised[s] {
		_, still := promised[id]
		switch {
		case still:
		case begun[gone.labels["alertname"]]:
			a.seen.miss(s, id, ReasonAlertEndNotSeen) // its rule has begun anew, perhaps with other labels
		case !gone.until.IsZero() && !answer.now.Add(vanishing).Before(gone.until):
			a.seen.miss(s, id, ReasonAlertNotRepeated)
		case answer.tellsOf(gone):
			// It has resolved: it is gone before its time, or its rule has looked.
		case blind:
			promised[id] = gone
		default:
			a.seen.miss(s, id, ReasonAlertEndNotSeen)
		}
	}
	a.seen.promised[s], a.seen.pending[s] = promised, waits
}

// wait returns what is to be said while nothing fires, and it is not known that all that did has
// resolved. Who does not tell of silenced alerts never shows that.
func (a *alerts) wait(s subject, why string, waiting bool, answer *answer) checks.Result {
	text := "an alert is gone without having resolved: it was not repeated"
	if why == ReasonAlertEndNotSeen {
		text = "an alert is gone, and nobody has seen whether it has resolved"
	}
	if answer.listensOnly {
		return checks.CannotTell(why, text+", or it is silenced; this lasts until it fires again and resolves")
	}
	if waiting {
		delete(a.seen.quiet, s)
		return checks.CannotTell(why, text+"; one is pending")
	}
	if a.seen.quiet[s].IsZero() {
		a.seen.quiet[s] = answer.now
	}
	if answer.now.Sub(a.seen.quiet[s]) >= a.config.QuietFor.Duration {
		delete(a.seen.unseen, s)
		return checks.Healthy(ReasonNoAlertFiring, fmt.Sprintf("no alert about this node has fired for %s, in which others would have", a.config.QuietFor))
	}
	return checks.CannotTell(why, fmt.Sprintf("%s; none has fired since %s", text, a.seen.quiet[s].UTC().Format(time.RFC3339)))
}

// reasons are those of the rows, each once, in the order of the table.
func reasons(all []selected) string {
	var list []string
	for _, one := range all {
		if !slices.Contains(list, one.Reason) {
			list = append(list, one.Reason)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// messages are those of alerts, in an order that does not change.
func messages(all []selected) (list []string) {
	for _, one := range all {
		text := config.Message(one.Message, one.labels, one.annotations)
		if one.Message == "" {
			text = one.labels["alertname"]
			for _, annotation := range []string{"summary", "description"} {
				if about := one.annotations[annotation]; about != "" {
					text += ": " + about
					break
				}
			}
		}
		list = append(list, cut.Valid(strings.Join(strings.Fields(text), " "), maxText))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// drop forgets nodes that are gone.
func (a *alerts) drop(nodes []node) {
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.name] = true
	}
	for s := range a.seen.met {
		if !names[s.node] {
			delete(a.seen.met, s)
			delete(a.seen.promised, s)
			delete(a.seen.unseen, s)
			delete(a.seen.quiet, s)
		}
	}
}
