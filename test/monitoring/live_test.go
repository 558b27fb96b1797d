//go:build integration

package monitoring

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/test/cluster"
)

// Metrics that the scene does not have, and why.
var (
	notExposed = map[string]string{
		"nodemend_hardware_failures":               "the BMC of the scene says nothing",
		"nodemend_detector_alerts_without_node":    "the scene has no remote detector",
		"nodemend_maintenance_machines":            "the scene has no remote runner",
		"nodemend_runner_fence_checks_total":       "the scene has no remote runner",
		"nodemend_system_stats_collector_disabled": "the scene has no system stats",
	}
	othersMetrics = regexp.MustCompile(`^kube_`) // kube-state-metrics
)

// Panels that are empty in the scene, and why.
var emptyPanels = map[string]string{}

func TestARunningInstanceHasAllThatPeopleWatch(t *testing.T) {
	s := newScene(t)
	s.play()
	t.Run("every metric is documented, with its type and labels", s.testMetrics)
	t.Run("every metric of alerts and panels exists", s.testNames)
	t.Run("every panel shows something", s.testPanels)
	t.Run("every alert is evaluated, and those fire that should", s.testAlerts)
	t.Run("the commands of the runbooks work", s.testCommands)
	if *picture != "" {
		s.paint(*picture)
	}
}

func (s *scene) names() []string {
	var names []string
	s.Expect(s.prometheus.get(s.t.Context(), "label/__name__/values", nil, &names)).To(Succeed())
	return names
}

func (s *scene) testMetrics(t *testing.T) {
	docs := documented(t)
	var types map[string][]struct{ Type string }
	s.Expect(s.prometheus.get(t.Context(), "metadata", nil, &types)).To(Succeed())
	var all []map[string]string
	s.Expect(s.prometheus.get(t.Context(), "series", url.Values{"match[]": {`{__name__=~"nodemend_.+"}`}}, &all)).To(Succeed())
	labels := map[string]map[string]bool{}
	for _, one := range all {
		m := one["__name__"]
		if base := part.ReplaceAllString(m, ""); docs[base].kind == "histogram" {
			m = base
		}
		if labels[m] == nil {
			labels[m] = map[string]bool{}
		}
		for l := range one {
			if !slices.Contains([]string{"__name__", "job", "instance", "node", "le"}, l) {
				labels[m][l] = true
			}
		}
	}
	for m, got := range labels {
		want, known := docs[m]
		switch {
		case !known:
			t.Errorf("docs/metrics.md has no row for %s", m)
		case types[m][0].Type != want.kind:
			t.Errorf("%s is a %s, docs/metrics.md says %s", m, types[m][0].Type, want.kind)
		case !slices.Equal(slices.Sorted(maps.Keys(got)), want.labels):
			t.Errorf("%s has the labels %v, docs/metrics.md says %v", m, slices.Sorted(maps.Keys(got)), want.labels)
		}
	}
	if n := s.value("count(count by (job) (nodemend_build_info))"); n != 3 {
		t.Errorf("%v roles tell their version, want 3", n)
	}
	for m := range docs {
		if why := notExposed[m]; labels[m] == nil && why == "" {
			t.Errorf("nobody exposes %s", m)
		} else if labels[m] != nil && why != "" {
			t.Errorf("%s is exposed after all", m)
		}
	}
}

func (s *scene) testNames(t *testing.T) {
	exposed := s.names()
	for where, expr := range expressions(t) {
		found := name.FindAllString(noSelectors(expr), -1)
		if len(found) == 0 {
			t.Errorf("%s: no metric was found in %s", where, expr)
		}
		for _, m := range found {
			if !othersMetrics.MatchString(m) && !slices.Contains(exposed, m) {
				t.Errorf("%s asks for %s, which nobody exposes", where, m)
			}
		}
	}
}

// noSelectors leaves out values of labels, in which a metric's name may be meant.
func noSelectors(expr string) string {
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
}

// filled returns a panel's expression with Grafana's variables filled in.
func filled(expr, within string) string {
	return strings.NewReplacer("$__rate_interval", "10s", "$__range", within, "$policy", ".*").Replace(expr)
}

func (s *scene) testPanels(t *testing.T) {
	now := time.Now()
	for _, p := range panels(t) {
		shown := 0
		for _, target := range p.Targets {
			result, err := s.prometheus.queryRange(t.Context(), filled(target.Expr, "5m"), now.Add(-time.Minute), now, time.Second)
			if err != nil {
				t.Errorf("panel %s: %v", p.Title, err)
			}
			shown += len(result)
		}
		if p.Type != "row" && shown == 0 && emptyPanels[p.Title] == "" {
			t.Errorf("panel %s is empty", p.Title)
		}
	}
}

func (s *scene) testAlerts(t *testing.T) {
	// The others of this scene's faults need longer than a test.
	for _, firing := range []string{"NodemendExhausted", "NodemendTwoWriters"} {
		s.eventually(`ALERTS{alertstate="firing",alertname="` + firing + `"}`)
	}
	for _, pending := range []string{"NodemendCheckBlind"} {
		s.eventually(`ALERTS{alertname="` + pending + `"}`)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Name, State, Health, LastError string
			}
		}
	}
	s.Expect(s.prometheus.get(t.Context(), "rules", nil, &rules)).To(Succeed())
	seen := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			seen++
			if r.Health != "ok" {
				t.Errorf("alert %s is %s: %s", r.Name, r.Health, r.LastError)
			}
			if slices.Contains([]string{"NodemendControllerDown", "NodemendNoLeader", "NodemendStorm", "NodemendDetectorDown", "NodemendRunnerDown"}, r.Name) &&
				r.State != "inactive" {
				t.Errorf("alert %s is %s", r.Name, r.State)
			}
		}
	}
	if want := len(alerts(t)); seen != want {
		t.Errorf("Prometheus has %d alerts, want %d", seen, want)
	}
}

// Commands of the plugin are tested with the plugin.
func (s *scene) testCommands(t *testing.T) {
	kubectl, err := cluster.Program("kubectl")
	s.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(runbooks + "*.md")
	s.Expect(err).NotTo(HaveOccurred())
	command := regexp.MustCompile(`(?m)^kubectl ([^n|#][^|#\n]*|-n [^|#\n]*)`)
	// There are no pods, of whatever role, and no node is out of service.
	absent := regexp.MustCompile(`\(NotFound\)|^error: taint "[^"]*" not found\n$|^no\n$`)
	seen := 0
	for _, file := range files {
		for _, m := range command.FindAllStringSubmatch(string(read(t, file)), -1) {
			seen++
			line := strings.NewReplacer("nodemaintenance NAME", "nodemaintenance swap-dimm", "remediationbudget NAME", "remediationbudget all-nodes",
				"NODE", "node-0", "POD", "a-pod", "NAME", "a-name").Replace(m[1])
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", kubectl+" "+line)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
			if output, err := cmd.CombinedOutput(); err != nil && !absent.Match(output) {
				t.Errorf("%s: kubectl %s: %v: %s", file, line, err, output)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands were found", seen)
	}
}
