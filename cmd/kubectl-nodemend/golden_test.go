package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// steady replaces what differs from run to run.
func steady(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`-[0-9a-f]{16}\b`, "-HASH"},
		{`(worker-\d+)-[a-z0-9]{5}\b`, "${1}-XXXXX"},
		{`(?m)^(\s*"?(uid|nodeUID|resourceVersion)"?: ).*?(,?)$`, "${1}X${3}"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+\d\d:\d\d)`, "TIME"},
		{`https://127\.0\.0\.1:\d+`, "https://SERVER"},
		{`\b\d\d:\d\d:\d\dZ?`, "CLOCK"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// golden compares what a command line prints with testdata/NAME.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got = steady(got)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with: go test -tags integration ./cmd/kubectl-nodemend -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// other golden files have data, tables that are wide, or messages, which are folded on a terminal alone.
var other = regexp.MustCompile(`-(json|yaml|wide)\.golden$|/(error|approve|cancel|fence-confirm|hardware-ack|maintenance-(start|end|progress)|pause|resume|retry|run|uninstall)\b|/(exclude|status)-selected`)

func TestTheAnswersFitATerminal(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if other.MatchString(file) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range tooLong(string(data), lineWidth) {
			if !strings.HasPrefix(line, quote) {
				t.Errorf("%s has a line of %d columns: %s", file, utf8.RuneCountInString(line), line)
			}
		}
	}
}
