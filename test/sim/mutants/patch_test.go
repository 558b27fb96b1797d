package main

import (
	"strings"
	"testing"
)

func TestAPatchIsAppliedWhereItsLinesHaveMoved(t *testing.T) {
	m, err := parse("why\n--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.changes[0].apply("new\na\nb\nc\n"); err != nil || got != "new\na\nB\nc\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := m.changes[0].apply("a\nx\nc\n"); err == nil || !strings.Contains(err.Error(), "not there any more") {
		t.Errorf("a patch of lines that are gone: %v", err)
	}
}
