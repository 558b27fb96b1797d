package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

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
	ReasonWatchdogMissing  = "WatchdogMissing"
	ReasonSourceNotRead    = "AlertsNotRead"
)

// vanishing is how much of the time for which an alert was promised has to be left when it is
// gone, so that it has resolved and was not just forgotten. Dates have whole seconds.
const vanishing = 2 * time.Second

// maxText bounds the message of one alert, in bytes.
const maxText = 400

// alerts makes conditions of an Alertmanager's alerts.
type alerts struct {
	config   config.Alerts
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
	// promised is until when an alert was to fire when it was last seen, by its fingerprint and
	// by Alertmanager's clock.
	promised map[subject]map[string]time.Time
	// unseen is why nobody knows that an alert has resolved that is not there any more, by its
	// fingerprint; "": one that a former process has reported.
	unseen map[subject]map[string]string
	// quiet is since when the watchdog was seen, and no alert, in each answer.
	quiet map[subject]time.Time
	// met are those of which it is known whether something was reported before.
	met map[subject]bool
	// nameless are the alerts of which the log tells that they name no node.
	nameless map[string]bool
}

func newAlerts(c config.Alerts, registerer prometheus.Registerer) (*alerts, error) {
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
	a.forget()
	return a, nil
}

func (a *alerts) String() string { return "alerts" }

func (a *alerts) settings() config.RemoteRun { return a.config.RemoteRun }

func (a *alerts) types(node) []string { return a.config.Types() }

func (a *alerts) look(ctx context.Context, nodes []node) found {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout.Duration)
	defer cancel()
	answer, err := ask(ctx, a.config.Alertmanager)
	if err != nil {
		return a.unread(err, nodes)
	}
	found, nameless := a.judge(answer, nodes)
	a.nameless.Set(float64(len(nameless)))
	for name := range nameless {
		if !a.seen.nameless[name] {
			klog.FromContext(ctx).Info("An alert that is to make a condition names no node that there is", "alert", name)
		}
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
			f.add(n.name, t, checks.CannotTell(ReasonSourceNotRead, "the Alertmanager can't be read: "+cut.Head(cut.Plain(err.Error()), maxText)))
		}
	}
	return f
}

// forget begins anew: what ended meanwhile, and how, is not known.
func (a *alerts) forget() {
	a.seen = alertMemory{
		promised: map[subject]map[string]time.Time{}, unseen: map[subject]map[string]string{}, quiet: map[subject]time.Time{}, met: map[subject]bool{},
		nameless: a.seen.nameless,
	}
}

// firing is an alert, and the row that selects it.
type firing struct {
	*alert
	*row
}

// judge returns what an answer says of nodes, and the alerts that name none.
func (a *alerts) judge(answer answer, nodes []node) (f found, nameless map[string]bool) {
	if !answer.process.Equal(a.seen.process) || answer.now.Before(a.seen.now) {
		a.gap()
	}
	a.seen.process, a.seen.now = answer.process, answer.now

	alive := slices.ContainsFunc(answer.alerts, func(one alert) bool { return matches(a.watchdog, &one) })
	there, nameless := a.about(answer.alerts, nodes)
	f = found{}
	for _, n := range nodes {
		for _, t := range a.config.Types() {
			s := subject{n.name, t}
			a.meet(s, n, len(there[s]) > 0)
			f.add(n.name, t, a.of(s, there[s], alive, answer.now))
		}
	}
	a.drop(nodes)
	return f, nameless
}

// matches reports whether an alert has the labels that all of the matchers ask for.
func matches(matchers []config.Matcher, one *alert) bool {
	for _, m := range matchers {
		if !m.Matches(one.Labels[m.Name]) {
			return false
		}
	}
	return true
}

// about sorts alerts by what they are about.
func (a *alerts) about(all []alert, nodes []node) (there map[subject][]firing, nameless map[string]bool) {
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.name] = true
	}
	there, nameless = map[subject][]firing{}, map[string]bool{}
	for i := range all {
		for r := range a.rows {
			one, row := &all[i], &a.rows[r]
			if !matches(row.matchers, one) {
				continue
			}
			name := one.Labels[row.NodeLabel]
			if !names[name] {
				nameless[fmt.Sprintf("%s %s=%q", cut.Plain(one.Labels["alertname"]), row.NodeLabel, cut.Plain(name))] = true
				continue
			}
			s := subject{name, row.Type}
			there[s] = append(there[s], firing{one, row})
		}
	}
	return there, nameless
}

// gap takes in that the Alertmanager may have forgotten alerts since the latest answer, or was
// never asked.
func (a *alerts) gap() {
	before := a.seen
	a.forget()
	a.seen.met = before.met
	a.seen.unseen = before.unseen
	for s, promised := range before.promised {
		for fingerprint := range promised {
			a.seen.miss(s, fingerprint, ReasonAlertEndNotSeen)
		}
	}
}

// miss takes in that nobody has seen an alert resolve, and why.
func (m *alertMemory) miss(s subject, fingerprint, why string) {
	if m.unseen[s] == nil {
		m.unseen[s] = map[string]string{}
	}
	m.unseen[s][fingerprint] = why
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

// of returns what is to be said of a subject. there are the alerts about it, and alive is whether
// what sends alerts lives.
func (a *alerts) of(s subject, there []firing, alive bool, now time.Time) checks.Result {
	promised := map[string]time.Time{}
	for _, one := range there {
		promised[one.Fingerprint] = one.EndsAt
		delete(a.seen.unseen[s], one.Fingerprint) // how it ends will be seen
	}
	for fingerprint, until := range a.seen.promised[s] {
		if _, still := promised[fingerprint]; !still && !now.Add(vanishing).Before(until) {
			a.seen.miss(s, fingerprint, ReasonAlertNotRepeated)
		} // else it has resolved: it is gone before its time
	}
	a.seen.promised[s] = promised

	if counting := slices.DeleteFunc(slices.Clone(there), func(one firing) bool { return !one.counts() }); len(counting) > 0 {
		delete(a.seen.quiet, s)
		return checks.Problem(reasons(counting), checks.Listed(messages(counting)))
	}
	if len(there) > 0 {
		delete(a.seen.quiet, s)
		return checks.CannotTell(ReasonAlertSilenced, "silenced or inhibited, which is no recovery: "+checks.Listed(messages(there)))
	}
	if !alive {
		delete(a.seen.quiet, s)
		return checks.CannotTell(ReasonWatchdogMissing, fmt.Sprintf("the alert that always fires (%s) does not, so nobody knows whether others would", strings.Join(a.config.Watchdog, ", ")))
	}
	why := a.seen.why(s)
	if why == "" {
		return checks.Healthy(ReasonNoAlertFiring, "no alert about this node fires")
	}
	if a.seen.quiet[s].IsZero() {
		a.seen.quiet[s] = now
	}
	if now.Sub(a.seen.quiet[s]) >= a.config.QuietFor.Duration {
		delete(a.seen.unseen, s)
		return checks.Healthy(ReasonNoAlertFiring, fmt.Sprintf("no alert about this node has fired for %s, while the alert that always fires did", a.config.QuietFor))
	}
	text := "an alert is gone without having resolved: it was not repeated"
	if why == ReasonAlertEndNotSeen {
		text = "an alert is gone, and nobody has seen whether it has resolved"
	}
	return checks.CannotTell(why, fmt.Sprintf("%s; none has fired since %s", text, a.seen.quiet[s].UTC().Format(time.RFC3339)))
}

// reasons are those of the rows, each once, in the order of the table.
func reasons(all []firing) string {
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
func messages(all []firing) (list []string) {
	for _, one := range all {
		text := config.Message(one.Message, one.Labels, one.Annotations)
		if one.Message == "" {
			text = one.Labels["alertname"]
			for _, annotation := range []string{"summary", "description"} {
				if about := one.Annotations[annotation]; about != "" {
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
