package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	config "github.com/nodemend/nodemend/config/detector"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// playedAlerts is what an Alertmanager holds.
type playedAlerts struct {
	t       *testing.T
	now     time.Time
	process time.Time
	alerts  []alert
	under   *alerts
	nodes   []node
	// nameless are what the latest answer had.
	nameless map[string]bool
}

func play(t *testing.T, set func(*config.Alerts)) *playedAlerts {
	t.Helper()
	c := config.DefaultRemote().Alerts
	c.Conditions = []config.AlertCondition{{Type: "DiskAlert", Matchers: []string{`alertname=~"Disk.*"`}, Reason: "DiskIsSlow"}}
	if set != nil {
		set(&c)
	}
	c.Alertmanager.URL = "http://localhost"
	a, err := newAlerts(c, prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &playedAlerts{t: t, now: epoch, process: epoch.Add(-time.Hour), under: a, nodes: []node{{name: "n"}, {name: "other"}}}
	p.fire("Watchdog", "", time.Hour)
	return p
}

// fire has an alert fire for as long.
func (p *playedAlerts) fire(name, node string, promised time.Duration) *alert {
	p.end(name)
	one := alert{
		labels: map[string]string{"alertname": name, "node": node, "instance": "exporter:9100"}, annotations: map[string]string{"summary": "it is " + name},
		until: p.now.Add(promised), id: name,
	}
	p.alerts = append(p.alerts, one)
	return &p.alerts[len(p.alerts)-1]
}

// end takes an alert away.
func (p *playedAlerts) end(name string) {
	var left []alert
	for _, one := range p.alerts {
		if one.labels["alertname"] != name {
			left = append(left, one)
		}
	}
	p.alerts = left
}

// after lets time pass.
func (p *playedAlerts) after(d time.Duration) { p.now = p.now.Add(d) }

// says asks, and compares what is said of a node.
func (p *playedAlerts) says(node, want string) {
	p.t.Helper()
	f, nameless := p.under.judge(answer{alerts: p.alerts, now: p.now, process: p.process}, p.nodes)
	p.nameless = nameless
	o := f[node][0]
	if got := string(o.Status) + " " + o.Reason; got != want {
		p.t.Errorf("at %s: got %s (%s), want %s", p.now.Sub(epoch), got, o.Message, want)
	}
}

const (
	wellSaid    = "False " + ReasonNoAlertFiring
	firingSaid  = "True DiskIsSlow"
	goneSaid    = "Unknown " + ReasonAlertNotRepeated
	unseenSaid  = "Unknown " + ReasonAlertEndNotSeen
	lostSaid    = "Unknown " + ReasonWatchdogMissing
	silenceSaid = "Unknown " + ReasonAlertSilenced
)

func TestAnAlertThatResolvesIsOver(t *testing.T) {
	p := play(t, nil)
	p.says("n", wellSaid)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.says("other", wellSaid)
	p.after(time.Minute)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.after(30 * time.Second)
	p.end("DiskSlow")
	p.says("n", wellSaid)
}

func TestAnAlertThatIsNotRepeatedIsNot(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.after(4*time.Minute - vanishing)
	p.end("DiskSlow")
	p.says("n", goneSaid)
	p.after(14*time.Minute + 59*time.Second)
	p.says("n", goneSaid)
	p.after(time.Second) // others were repeated all the time
	p.says("n", wellSaid)
}

func TestOneThatFiresAgainTellsHowItEnds(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", time.Minute)
	p.says("n", firingSaid)
	p.after(time.Minute)
	p.end("DiskSlow")
	p.says("n", goneSaid)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.after(time.Second)
	p.end("DiskSlow")
	p.says("n", wellSaid)
}

func TestAnotherAlertDoesNotTellHowTheFirstEnded(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", time.Minute)
	p.says("n", firingSaid)
	p.after(time.Minute)
	p.end("DiskSlow")
	p.fire("DiskFull", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.after(time.Second)
	p.end("DiskFull")
	p.says("n", goneSaid)
}

func TestWithoutTheWatchdogNothingIsWell(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", time.Minute)
	p.says("n", firingSaid)
	p.end("Watchdog")
	p.says("other", lostSaid)
	p.says("n", firingSaid)
	p.after(time.Minute)
	p.end("DiskSlow")
	p.says("n", lostSaid)
	p.fire("Watchdog", "", time.Hour)
	p.says("n", goneSaid)
	p.says("other", wellSaid)
	p.after(5 * time.Minute)
	p.end("Watchdog")
	p.says("n", lostSaid)
	p.fire("Watchdog", "", time.Hour)
	p.after(11 * time.Minute)
	p.says("n", goneSaid) // the quiet time has begun anew
	p.after(15 * time.Minute)
	p.says("n", wellSaid)
}

func TestASilencedAlertIsNeitherAProblemNorRecovery(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", 4*time.Minute).state = silenced
	p.says("n", silenceSaid)
	p.fire("DiskFull", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.end("DiskFull")
	p.says("n", silenceSaid)
	p.end("DiskSlow")
	p.says("n", wellSaid)
}

func TestAnAlertmanagerThatWasRestartedHasForgotten(t *testing.T) {
	for name, restart := range map[string]func(*playedAlerts){
		"it says so":                 func(p *playedAlerts) { p.process = p.now },
		"its clock has gone back":    func(p *playedAlerts) { p.now = p.now.Add(-time.Hour) },
		"it is another one of a set": func(p *playedAlerts) { p.process = p.process.Add(-time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, nil)
			p.fire("DiskSlow", "n", 4*time.Minute)
			p.says("n", firingSaid)
			p.after(time.Second)
			p.end("DiskSlow")
			restart(p)
			p.says("n", unseenSaid)
			p.says("other", wellSaid)
			p.fire("DiskSlow", "n", 4*time.Minute) // it is sent again
			p.says("n", firingSaid)
			p.after(time.Second)
			p.end("DiskSlow")
			p.says("n", wellSaid)
		})
	}
}

func TestWhatStandsOnTheNodeAtAStartIsNotOverForThat(t *testing.T) {
	for name, tt := range map[string]struct {
		stands corev1.NodeCondition
		fires  bool
		want   string
	}{
		"a problem":                      {corev1.NodeCondition{Status: "True", Reason: "DiskIsSlow"}, false, unseenSaid},
		"one that goes on":               {corev1.NodeCondition{Status: "True", Reason: "DiskIsSlow"}, true, firingSaid},
		"one that was not repeated":      {corev1.NodeCondition{Status: "Unknown", Reason: ReasonAlertNotRepeated}, false, goneSaid},
		"one of which nobody could tell": {corev1.NodeCondition{Status: "Unknown", Reason: ReasonSourceNotRead}, false, unseenSaid},
		"health":                         {corev1.NodeCondition{Status: "False", Reason: ReasonNoAlertFiring}, false, wellSaid},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, nil)
			p.nodes[0].conditions = map[string]corev1.NodeCondition{"DiskAlert": tt.stands}
			if tt.fires {
				p.fire("DiskSlow", "n", 4*time.Minute)
			}
			p.says("n", tt.want)
			p.after(time.Second)
			if tt.fires {
				p.end("DiskSlow")
				p.says("n", wellSaid) // its end was seen
				return
			}
			p.says("n", tt.want)
			p.after(15 * time.Minute)
			p.says("n", wellSaid)
		})
	}
}

func TestAnAlertmanagerThatCannotBeReadSaysNothing(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	for name, o := range p.under.unread(errNoAnswer{}, p.nodes) {
		if o[0].Status != "Unknown" || o[0].Reason != ReasonSourceNotRead || !strings.Contains(o[0].Message, "no answer") {
			t.Errorf("%s: got %+v", name, o[0])
		}
	}
	p.after(3 * time.Minute)
	p.end("DiskSlow") // before its end, as the same process says
	p.says("n", wellSaid)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.under.unread(errNoAnswer{}, p.nodes)
	p.after(5 * time.Minute)
	p.end("DiskSlow") // it may have resolved, or not
	p.says("n", goneSaid)
}

type errNoAnswer struct{}

func (errNoAnswer) Error() string { return "no answer" }

func TestTheTableSaysWhichConditionAnAlertMakes(t *testing.T) {
	p := play(t, func(c *config.Alerts) {
		c.Conditions = []config.AlertCondition{
			{Type: "DiskAlert", Matchers: []string{`alertname="DiskSlow"`}, Reason: "DiskIsSlow", Message: "disk {label:disk} of {label:host}"},
			{Type: "DiskAlert", Matchers: []string{`alertname="DiskFull"`, `severity="critical"`}, NodeLabel: "host"},
		}
	})
	p.fire("DiskSlow", "n", time.Hour).labels["disk"] = "sda"
	p.fire("DiskFull", "", time.Hour).labels["host"] = "n"
	p.says("n", "True DiskIsSlow") // its severity is another one
	p.alerts[len(p.alerts)-1].labels["severity"] = "critical"
	p.says("n", "True "+ReasonAlertFiring+",DiskIsSlow")
	f, _ := p.under.judge(answer{alerts: p.alerts, now: p.now, process: p.process}, p.nodes)
	if got, want := f["n"][0].Message, "DiskFull: it is DiskFull; disk sda of"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.alerts[len(p.alerts)-1].labels["host"] = "gone"
	p.says("n", "True DiskIsSlow")
	if len(p.nameless) != 1 || !p.nameless[`DiskFull host="gone"`] {
		t.Errorf("got %v", p.nameless)
	}
}

func TestANodeThatIsGoneIsForgotten(t *testing.T) {
	p := play(t, nil)
	p.fire("DiskSlow", "n", 4*time.Minute)
	p.says("n", firingSaid)
	p.nodes = p.nodes[1:]
	p.says("other", wellSaid)
	p.end("DiskSlow")
	p.nodes = append(p.nodes, node{name: "n"}) // another one of this name
	p.says("n", wellSaid)
	if len(p.under.seen.promised) != 2 || len(p.under.seen.met) != 2 {
		t.Errorf("got %+v", p.under.seen)
	}
}
