package remote

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	config "github.com/nodemend/nodemend/config/detector"
)

const (
	oneRule = `{"status":"success","data":{"groups":[{"name":"g","file":"f","interval":30,"lastEvaluation":"2026-03-01T11:59:50Z","rules":[
		{"state":"firing","name":"DiskSlow","query":"x","duration":0,"labels":{"severity":"critical","of":"{{ $labels.x }}"},"annotations":{},"health":"ok","lastEvaluation":"2026-03-01T11:59:50.123Z","type":"alerting",
		"alerts":[{"labels":{"alertname":"DiskSlow","node":"n","severity":"critical"},"annotations":{"summary":"s"},"state":"firing","activeAt":"2026-03-01T11:00:00Z","value":"1e+00"}]}]}]}}`
	theRuntime = `{"status":"success","data":{"startTime":"2026-03-01T10:00:00Z","CWD":"/"}}`
)

// playedPrometheus is a strict, played one.
type playedPrometheus struct{ rules, runtime string }

func (p playedPrometheus) start(t *testing.T) prometheusServer {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, known := map[string]string{"/api/v1/rules?type=alert": p.rules, "/api/v1/status/runtimeinfo": p.runtime}[r.URL.RequestURI()]
		if r.Method != http.MethodGet || !known {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Header().Set("Date", epoch.Format(http.TimeFormat))
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return prometheusServer{config.AlertServer{URL: server.URL}}
}

func TestAPrometheusIsRead(t *testing.T) {
	with := func(before, after string) string { return strings.ReplaceAll(oneRule, before, after) }
	for name, tt := range map[string]struct {
		rules string
		state alertState
		stale string
	}{
		"firing":                     {oneRule, firing, ""},
		"pending":                    {with(`"state":"firing","activeAt"`, `"state":"pending","activeAt"`), pending, ""},
		"evaluated just in time":     {with("11:59:50.123", "11:58:00.000"), firing, ""},
		"evaluated too long ago":     {with("11:59:50.123", "11:57:59.999"), stale, "was evaluated at 2026-03-01T11:57:59Z for the last time"},
		"never evaluated":            {with("2026-03-01T11:59:50.123", "0001-01-01T00:00:00"), stale, "0001-01-01"},
		"the rule can't be computed": {with(`"health":"ok"`, `"health":"err","lastError":"many-to-many"`), stale, "its health is err: many-to-many"},
	} {
		got, err := playedPrometheus{tt.rules, theRuntime}.start(t).read(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a := got.alerts[0]; len(got.alerts) != 1 || a.state != tt.state || a.labels["node"] != "n" || a.annotations["summary"] != "s" || !a.until.IsZero() || a.id != `alertname="DiskSlow",node="n",severity="critical",` {
			t.Errorf("%s: got %+v", name, got.alerts)
		}
		if r := got.rules[0]; (r.stale == "") != (tt.stale == "") || !strings.Contains(r.stale, tt.stale) || len(r.labels) != 2 {
			t.Errorf("%s: got %+v", name, got.rules)
		}
		if !got.now.Equal(epoch) || !got.process.Equal(epoch.Add(-2*time.Hour)) {
			t.Errorf("%s: got %s and %s", name, got.now, got.process)
		}
	}
}

func TestWhatIsNotAPrometheusIsAnError(t *testing.T) {
	with := func(before, after string) string { return strings.ReplaceAll(oneRule, before, after) }
	for name, tt := range map[string]struct {
		p    playedPrometheus
		want string
	}{
		"a page":              {playedPrometheus{rules: "<html>"}, "its answer can't be read"},
		"an error":            {playedPrometheus{rules: `{"status":"error","error":"x"}`}, `answers with the status "error"`},
		"no data":             {playedPrometheus{rules: `{"status":"success"}`}, `answers with the status "success"`},
		"a list":              {playedPrometheus{rules: `{"status":"success","data":[]}`}, "its answer can't be read"},
		"another state":       {playedPrometheus{rules: with(`"state":"firing","activeAt"`, `"state":"active","activeAt"`)}, `the state "active"`},
		"a rule of no alerts": {playedPrometheus{rules: with("alerting", "recording")}, `has the type "recording"`},
		"no start":            {playedPrometheus{rules: oneRule, runtime: `{"status":"success","data":{}}`}, "does not say since when it runs"},
	} {
		if _, err := tt.p.start(t).read(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// ofPrometheus has the played alerts be those of a Prometheus that evaluates these rules.
func (p *playedAlerts) ofPrometheus(want string, rules ...ruleOfAlerts) {
	p.t.Helper()
	for i := range p.alerts {
		p.alerts[i].until = time.Time{}
	}
	f, _ := p.under.judge(answer{alerts: p.alerts, now: p.now, process: p.process, rules: rules}, p.nodes)
	if got := string(f["n"][0].Status) + " " + f["n"][0].Reason; got != want {
		p.t.Errorf("at %s: got %s (%s), want %s", p.now.Sub(epoch), got, f["n"][0].Message, want)
	}
}

func ruleNamed(name string) ruleOfAlerts {
	return ruleOfAlerts{labels: map[string]string{"alertname": name}}
}

func TestARuleThatIsNotEvaluatedIsNotHealth(t *testing.T) {
	const blind = "Unknown " + ReasonRuleNotEvaluated
	fresh, other, broken := ruleNamed("DiskSlow"), ruleNamed("Other"), ruleNamed("DiskFull")
	broken.stale = "it is broken"
	p := play(t, nil)
	p.end("Watchdog") // nobody needs it here
	p.ofPrometheus(wellSaid, fresh, other)
	p.ofPrometheus(blind, other)         // no such rule
	p.ofPrometheus(blind, fresh, broken) // of which alerts would count
	broken.labels["alertname"] = "Unrelated"
	p.ofPrometheus(wellSaid, fresh, broken)
	p.fire("DiskSlow", "n", 0)
	p.ofPrometheus(firingSaid, fresh)
	p.alerts[0].state = stale
	p.ofPrometheus(blind, fresh)
	p.end("DiskSlow")
	p.ofPrometheus(blind, other)
	p.ofPrometheus(wellSaid, fresh) // it was evaluated, and does not fire
}

// A rule that is moved or edited has forgotten which alerts fire, and holds them back for its "for".
func TestAnAlertThatIsGoneWithoutItsRuleLookingIsNotOver(t *testing.T) {
	const blind = "Unknown " + ReasonRuleNotEvaluated
	rule, broken, full := ruleNamed("DiskSlow"), ruleNamed("DiskSlow"), ruleNamed("DiskFull")
	broken.stale = "it was not evaluated yet"
	edited := ruleNamed("DiskSlow")
	edited.labels["severity"] = "critical"
	for name, tt := range map[string]func(*playedAlerts){
		"the rule is moved": func(p *playedAlerts) {
			p.ofPrometheus(blind, broken)
			p.after(time.Minute)
			p.ofPrometheus(blind, broken)
			one := p.fire("DiskSlow", "n", 0)
			one.id, one.state = "of its labels", pending
			p.ofPrometheus(unseenSaid, rule)
		},
		"its labels are edited": func(p *playedAlerts) {
			p.ofPrometheus(unseenSaid, edited)
		},
		"others of its alerts are": func(p *playedAlerts) {
			one := p.fire("DiskSlow", "n", 0)
			one.id, one.state = "of other labels", pending
			p.ofPrometheus(unseenSaid, rule)
		},
		"the rule is deleted, and there is another one of the row": func(p *playedAlerts) {
			p.ofPrometheus(unseenSaid, full)
		},
		"all rules of the row are deleted, then there is another one": func(p *playedAlerts) {
			p.ofPrometheus(blind, ruleNamed("Other"))
			p.ofPrometheus(unseenSaid, full)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, nil)
			p.end("Watchdog")
			p.fire("DiskSlow", "n", 0).id = "of its labels"
			p.ofPrometheus(firingSaid, rule)
			p.end("DiskSlow")
			tt(p)
			p.end("DiskSlow")
			p.ofPrometheus(unseenSaid, rule)
			p.after(15 * time.Minute)
			p.ofPrometheus(wellSaid, rule)
		})
	}
}

func TestAnAlertResolvesAlthoughAnotherOneOfItsRuleIsPending(t *testing.T) {
	rule := ruleNamed("DiskSlow")
	p := play(t, nil)
	p.end("Watchdog")
	sda := p.fire("DiskSlow", "n", 0)
	sda.id = "of sda"
	sdb := *sda
	sdb.id, sdb.state = "of sdb", pending
	p.alerts = append(p.alerts, sdb)
	p.ofPrometheus(firingSaid, rule)
	p.alerts = []alert{sdb}
	p.ofPrometheus(wellSaid, rule)
}

func TestAnAlertWhoseRuleLooksAgainIsOver(t *testing.T) {
	rule, broken, full := ruleNamed("DiskSlow"), ruleNamed("DiskSlow"), ruleNamed("DiskFull")
	broken.stale, full.stale = "it is broken", "it is broken"
	p := play(t, nil)
	p.end("Watchdog")
	p.fire("DiskSlow", "n", 0)
	p.ofPrometheus(firingSaid, rule)
	p.end("DiskSlow")
	p.ofPrometheus("Unknown "+ReasonRuleNotEvaluated, broken)
	p.fire("DiskFull", "n", 0).state = pending // another rule
	p.ofPrometheus(wellSaid, rule)
	p.fire("DiskSlow", "n", 0)
	p.ofPrometheus(firingSaid, rule)
	p.end("DiskSlow")
	p.ofPrometheus("Unknown "+ReasonRuleNotEvaluated, rule, full) // it has looked
	p.ofPrometheus(wellSaid, rule)
}

func TestAPendingAlertIsNeitherAProblemNorTheEndOfOne(t *testing.T) {
	rule := ruleNamed("DiskSlow")
	p := play(t, nil)
	p.fire("DiskSlow", "n", 0).state = pending
	p.ofPrometheus(wellSaid, rule)
	p.fire("DiskSlow", "n", 0)
	p.ofPrometheus(firingSaid, rule)
	p.process = p.now // restarted: it waits anew before it fires
	p.fire("DiskSlow", "n", 0).state = pending
	p.ofPrometheus(unseenSaid, rule)
	p.after(time.Hour)
	p.ofPrometheus(unseenSaid, rule)
	p.fire("DiskSlow", "n", 0)
	p.ofPrometheus(firingSaid, rule)
	p.fire("DiskSlow", "n", 0).state = pending // another rule of this name
	p.ofPrometheus(unseenSaid, rule)
	p.end("DiskSlow")
	p.ofPrometheus(unseenSaid, rule)
	p.after(15 * time.Minute)
	p.ofPrometheus(wellSaid, rule)
}

func TestAPendingAlertIsNotWhatStandsOnTheNode(t *testing.T) {
	rule := ruleNamed("DiskSlow")
	p := play(t, nil)
	p.nodes[0].conditions = map[string]corev1.NodeCondition{"DiskAlert": {Status: "True", Reason: "DiskIsSlow"}}
	p.fire("DiskSlow", "n", 0).state = pending
	p.ofPrometheus(unseenSaid, rule)
}
