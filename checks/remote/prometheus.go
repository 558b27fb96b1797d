package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	config "github.com/nodemend/nodemend/config/detector"
)

// late is how long after its time a rule may be evaluated.
const late = time.Minute

// prometheusServer is one that is polled itself. It knows of no silences.
type prometheusServer struct{ config.AlertServer }

func (p prometheusServer) String() string { return "Prometheus" }

// ruleOfAlerts is a rule that makes alerts.
type ruleOfAlerts struct {
	// labels are those that its alerts have in any case, and their name.
	labels map[string]string
	// stale is why what it says is not known to be so now; "": it is.
	stale string
}

// read implements source. GET /api/v1/rules has the alerts of GET /api/v1/alerts, and when each
// rule was evaluated: without that, one that is not evaluated any more looks like health.
func (p prometheusServer) read(ctx context.Context) (a answer, err error) {
	var rules struct {
		Groups []struct {
			Interval float64 `json:"interval"`
			Rules    []struct {
				Name           string            `json:"name"`
				Labels         map[string]string `json:"labels"`
				Health         string            `json:"health"`
				LastError      string            `json:"lastError"`
				LastEvaluation time.Time         `json:"lastEvaluation"`
				Type           string            `json:"type"`
				Alerts         []struct {
					Labels      map[string]string `json:"labels"`
					Annotations map[string]string `json:"annotations"`
					State       string            `json:"state"`
				} `json:"alerts"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if a.now, err = p.get(ctx, &rules, "/api/v1/rules?type=alert"); err != nil {
		return a, err
	}
	a.rules = []ruleOfAlerts{}
	for _, group := range rules.Groups {
		interval := time.Duration(group.Interval * float64(time.Second))
		for _, r := range group.Rules {
			if r.Type != "alerting" || r.Name == "" {
				return a, fmt.Errorf("%s/api/v1/rules: a rule has the type %q and the name %q, which is not understood", p.URL, r.Type, r.Name)
			}
			rule := ruleOfAlerts{labels: map[string]string{"alertname": r.Name}}
			for name, value := range r.Labels {
				if !strings.Contains(value, "{{") { // else it is another one in each alert
					rule.labels[name] = value
				}
			}
			switch age := a.now.Sub(r.LastEvaluation); {
			case r.Health != "ok":
				rule.stale = fmt.Sprintf("the rule %s can't be evaluated: its health is %s: %s", r.Name, r.Health, r.LastError)
			case age > 2*interval+late:
				rule.stale = fmt.Sprintf("the rule %s was evaluated at %s for the last time", r.Name, r.LastEvaluation.UTC().Format(time.RFC3339))
			}
			a.rules = append(a.rules, rule)
			for _, one := range r.Alerts {
				state, known := map[string]alertState{"firing": firing, "pending": pending}[one.State]
				if !known || one.Labels["alertname"] != r.Name {
					return a, fmt.Errorf("%s/api/v1/rules: an alert %q of the rule %s has the state %q, which is not understood", p.URL, one.Labels["alertname"], r.Name, one.State)
				}
				if state == firing && rule.stale != "" {
					state = stale
				}
				a.alerts = append(a.alerts, alert{labels: one.Labels, annotations: one.Annotations, id: idOf(one.Labels), state: state})
			}
		}
	}
	// After the alerts, as of an Alertmanager.
	var info struct {
		StartTime time.Time `json:"startTime"`
	}
	if _, err = p.get(ctx, &info, "/api/v1/status/runtimeinfo"); err != nil {
		return a, err
	}
	if info.StartTime.IsZero() {
		return a, fmt.Errorf("%s/api/v1/status/runtimeinfo does not say since when it runs", p.URL)
	}
	a.process = info.StartTime
	return a, nil
}

// get reads the data of an answer.
func (p prometheusServer) get(ctx context.Context, into any, path string) (time.Time, error) {
	client, err := clientFor(p.Trust, nil)
	if err != nil {
		return time.Time{}, err
	}
	defer client.CloseIdleConnections()
	var envelope struct {
		Status string          `json:"status"`
		Data   json.RawMessage `json:"data"`
	}
	now, err := get(ctx, client, p.AlertServer, path, &envelope)
	if err != nil {
		return now, err
	}
	if envelope.Status != "success" || len(envelope.Data) == 0 {
		return now, fmt.Errorf("%s%s answers with the status %q", p.URL, path, envelope.Status)
	}
	if err := json.Unmarshal(envelope.Data, into); err != nil {
		return now, fmt.Errorf("%s%s: its answer can't be read: %w", p.URL, path, err)
	}
	return now, nil
}

// idOf tells alerts of a Prometheus apart.
func idOf(labels map[string]string) string {
	var id strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&id, "%s=%q,", name, labels[name])
	}
	return id.String()
}

// blindRules is why it says nothing that no alert of a row fires; "": it does.
func (a *answer) blindRules(row *row) (reason, message string) {
	found := false
	for _, rule := range a.rules {
		if !row.mayBeOf(rule) {
			continue
		}
		found = true
		if rule.stale != "" {
			return ReasonRuleNotEvaluated, rule.stale
		}
	}
	if !found {
		return ReasonRuleNotEvaluated, fmt.Sprintf("no rule makes an alert with %s", strings.Join(row.Matchers, ", "))
	}
	return "", ""
}

// tellsOf reports whether it would have an alert if that still fired: a rule makes such alerts, and
// each that does was evaluated. Who evaluates no rules is told of an end.
func (a *answer) tellsOf(one alert) bool {
	tells := a.rules == nil
	for _, rule := range a.rules {
		if !rule.mayMake(one) {
			continue
		}
		if rule.stale != "" {
			return false
		}
		tells = true
	}
	return tells
}

// mayMake reports whether the alert has the labels of the rule's.
func (r ruleOfAlerts) mayMake(one alert) bool {
	for name, value := range r.labels {
		if one.labels[name] != value {
			return false
		}
	}
	return true
}

// mayBeOf reports whether alerts of the rule may be the row's, by the labels that are known.
func (r *row) mayBeOf(rule ruleOfAlerts) bool {
	for _, m := range r.matchers {
		if value, known := rule.labels[m.Name]; known && !m.Matches(value) {
			return false
		}
	}
	return true
}
