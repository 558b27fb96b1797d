package monitoring

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	folder    = "../../deploy/chart/monitoring/"
	rulesFile = folder + "rules.yaml"
	runbooks  = "../../docs/runbooks/"
)

// alert is a rule of rules.yaml.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal(read(t, rulesFile), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// panel is one of the dashboard.
type panel struct {
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct {
		Defaults struct {
			Unit     string
			Decimals *int
			Custom   struct{ Stacking struct{ Mode string } }
		}
	}
	Datasource struct{ UID string }
	Targets    []struct {
		Expr, LegendFormat string
		Datasource         struct{ UID string }
	}
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(read(t, folder+"dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// metric is a row of docs/metrics.md.
type metric struct {
	kind   string
	labels []string
}

// row of a table with a metric, its type and its labels.
var row = regexp.MustCompile("(?m)^\\| `(nodemend_[a-z_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\| [^|]+ \\|$")

func documented(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for _, m := range row.FindAllStringSubmatch(string(read(t, "../../docs/metrics.md")), -1) {
		if _, twice := all[m[1]]; twice {
			t.Errorf("docs/metrics.md has %s twice", m[1])
		}
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		slices.Sort(labels)
		all[m[1]] = metric{m[2], labels}
	}
	return all
}

// name of a metric in an expression.
var name = regexp.MustCompile(`\b(nodemend_[a-z_]+|controller_runtime_[a-z_]+|leader_election_[a-z_]+|kube_[a-z_]+|up)\b`)

// part is what the series of a histogram have more in their name.
var part = regexp.MustCompile(`_(bucket|count|sum)$`)

func TestTheListOfMetricsIsThatOfTheCode(t *testing.T) {
	literal := regexp.MustCompile(`"(nodemend_[a-z_]+)"`)
	defined := map[string]bool{}
	for _, dir := range []string{"checks", "cmd", "controller", "runner"} {
		err := filepath.WalkDir("../../"+dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range literal.FindAllSubmatch(read(t, path), -1) {
				defined[string(m[1])] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(defined) < 20 {
		t.Errorf("only %d metrics were found in the code", len(defined))
	}
	code, docs := slices.Sorted(maps.Keys(defined)), slices.Sorted(maps.Keys(documented(t)))
	for _, m := range code {
		if !slices.Contains(docs, m) {
			t.Errorf("docs/metrics.md has no row for %s", m)
		}
	}
	for _, m := range docs {
		if !defined[m] {
			t.Errorf("docs/metrics.md has %s, which there is not", m)
		}
	}
}

func TestAlertsAndPanelsAskForMetricsThatThereAre(t *testing.T) {
	docs := documented(t)
	for where, expr := range expressions(t) {
		for _, m := range name.FindAllString(expr, -1) {
			if !strings.HasPrefix(m, "nodemend_") {
				continue
			}
			if _, known := docs[m]; !known && docs[part.ReplaceAllString(m, "")].kind != "histogram" {
				t.Errorf("%s asks for %s, which there is not", where, m)
			}
		}
	}
}

// expressions are all those of alerts and panels, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, a := range alerts(t) {
		all["alert "+a.Alert] = a.Expr
	}
	for _, p := range panels(t) {
		for i, target := range p.Targets {
			all["panel "+p.Title+" "+string(rune('A'+i))] = target.Expr
		}
	}
	return all
}

func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	named := map[string]bool{"README.md": true}
	for _, a := range alerts(t) {
		file := a.Alert + ".md"
		named[file] = true
		if want := "https://github.com/nodemend/nodemend/blob/main/docs/runbooks/" + file; a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		for _, annotation := range []string{"summary", "description"} {
			if a.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", a.Alert, annotation)
			}
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s: severity is %q", a.Alert, a.Labels["severity"])
		}
		if text, err := os.ReadFile(runbooks + file); err != nil {
			t.Error(err)
		} else if !strings.HasPrefix(string(text), "# "+a.Alert+"\n") {
			t.Errorf("docs/runbooks/%s does not begin with its name", file)
		}
	}
	files, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !named[f.Name()] {
			t.Errorf("docs/runbooks/%s is of no alert", f.Name())
		}
	}
}

func TestEachAlertIsTestedToFireAndToBeQuiet(t *testing.T) {
	var file struct{ Tests []struct{ Name string } }
	if err := yaml.Unmarshal(read(t, "rules_test.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		for _, want := range []string{a.Alert + " fires", a.Alert + " is quiet"} {
			if !slices.ContainsFunc(file.Tests, func(test struct{ Name string }) bool { return strings.HasPrefix(test.Name, want) }) {
				t.Errorf("rules_test.yaml has no test that %s", want)
			}
		}
	}
}

// Every reason for which the gates hold something back is in the table of gates.md; one
// that no alert names is for NodemendBlockedTooLong. Those of a node's fence are in fencing.md.
func TestAlertsNameNoReasonThatThereIsNot(t *testing.T) {
	reasons := regexp.MustCompile(`reason!?=?~?"([A-Za-z|]+)"`)
	found := 0
	for _, a := range alerts(t) {
		page := "gates.md"
		if strings.Contains(a.Expr, "nodemend_node_fenceable") {
			page = "fencing.md"
		}
		known := string(read(t, "../../docs/"+page))
		for _, m := range reasons.FindAllStringSubmatch(a.Expr, -1) {
			for reason := range strings.SplitSeq(m[1], "|") {
				found++
				if !strings.Contains(known, "`"+reason+"`") {
					t.Errorf("%s asks for reason %s, which docs/%s does not know", a.Alert, reason, page)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d reasons were found", found)
	}
}

func TestTheDashboardHasNoIdentityAndNoDataSourceOfItsOwn(t *testing.T) {
	uids := regexp.MustCompile(`"uid": *("[^"]*"|null)`).FindAllSubmatch(read(t, folder+"dashboard.json"), -1)
	if len(uids) < 30 {
		t.Errorf("only %d are named", len(uids))
	}
	for _, uid := range uids {
		if string(uid[1]) != `"${datasource}"` {
			t.Errorf("the dashboard names %s", uid[1])
		}
	}
}

// A reason that NodemendBlockedTooLong leaves out, and no other alert takes, would hold back a sick
// node for ever with nobody told.
func TestEachReasonHasItsAlert(t *testing.T) {
	elsewhere := map[string]string{
		"Storm": "NodemendStorm", "DrainTimedOut": "NodemendDrainOverdue", "DrainVetoed": "NodemendDrainOverdue",
		"DryRun": "none", "OutsideWindow": "none", "Joining": "none", // docs/runbooks/NodemendHeldForADay.md says so
	}
	reasons := regexp.MustCompile(`nodemend_remediations_blocked_longest_seconds\{reason(!~|=~|=)"([A-Za-z|]+)"\}`)
	var out []string
	by := map[string]string{}
	for _, a := range alerts(t) {
		for _, m := range reasons.FindAllStringSubmatch(a.Expr, -1) {
			if m[1] == "!~" {
				out = append(out, strings.Split(m[2], "|")...)
				continue
			}
			for reason := range strings.SplitSeq(m[2], "|") {
				if by[reason] != "" {
					t.Errorf("%s is a reason of %s and of %s", reason, by[reason], a.Alert)
				}
				by[reason] = a.Alert
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("NodemendBlockedTooLong leaves out %q only: are they read?", out)
	}
	for _, reason := range out {
		if by[reason] == "" && elsewhere[reason] == "" {
			t.Errorf("NodemendBlockedTooLong leaves out %s, and no other alert takes it", reason)
		}
	}
	for reason, alert := range by {
		if !slices.Contains(out, reason) {
			t.Errorf("%s is a reason of %s and of NodemendBlockedTooLong", reason, alert)
		}
	}
}
