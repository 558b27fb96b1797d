package remediation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// record has the tables write what they decide to a file of testdata/statuses. It is run once for
// each version, before its release.
var record = flag.String("record", "", "`file` that the decided statuses are appended to")

// writtenStatus is the status that a version has decided to write in a situation.
type writtenStatus struct {
	Situation string                     `json:"situation"`
	Status    v1alpha1.RemediationStatus `json:"status"`
}

// recordStatus appends what was decided to the file of this version, if that is asked for.
func recordStatus(t *testing.T, d decision) {
	t.Helper()
	if *record == "" {
		return
	}
	line, err := json.Marshal(writtenStatus{t.Name(), d.status})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(*record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}

// earlier returns the statuses of earlier versions, by their file and situation.
func earlier(t *testing.T) map[string]map[string]v1alpha1.RemediationStatus {
	t.Helper()
	files, err := filepath.Glob("testdata/statuses/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statuses of earlier versions: %v", err)
	}
	all := map[string]map[string]v1alpha1.RemediationStatus{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		byName, lines := map[string]v1alpha1.RemediationStatus{}, bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var w writtenStatus
			if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			byName[w.Situation] = w.Status
		}
		all[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = byName
	}
	return all
}

// continues compares what is decided after a status that an earlier version has written with what
// is decided after this version's own: an upgrade may come in the middle of an incident.
func continues(t *testing.T, s situation, own decision, versions map[string]map[string]v1alpha1.RemediationStatus) {
	t.Helper()
	after := func(status v1alpha1.RemediationStatus) decision {
		next := s
		next.remediation = s.remediation.DeepCopy()
		next.remediation.Status = status
		if next.remediation.Ended() {
			return decision{status: status}
		}
		return decide(next)
	}
	want := after(own.status)
	for version, statuses := range versions {
		status, known := statuses[t.Name()]
		if !known {
			continue // a situation that was not in the tables then
		}
		got := after(status)
		if got.effect != want.effect || got.wait != want.wait || got.rule != want.rule || got.status.Phase() != want.status.Phase() ||
			got.progress() != want.progress() || got.blockedBy() != want.blockedBy() ||
			got.status.Step != want.status.Step || got.status.Attempt != want.status.Attempt {
			t.Errorf("a status of %s goes on as effect %d, wait %s, rule %q, phase %s, state %s, blocked by %q, step %d, attempt %d; one of this version as effect %d, wait %s, rule %q, phase %s, state %s, blocked by %q, step %d, attempt %d",
				version, got.effect, got.wait, got.rule, got.status.Phase(), got.progress(), got.blockedBy(), got.status.Step, got.status.Attempt,
				want.effect, want.wait, want.rule, want.status.Phase(), want.progress(), want.blockedBy(), want.status.Step, want.status.Attempt)
		}
	}
}
