package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryMutantStillApplies(t *testing.T) {
	mutants, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 40 {
		t.Errorf("%d mutants, want at least 40", len(mutants))
	}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		changed, err := m.apply(string(source))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if changed == string(source) {
			t.Errorf("%s changes nothing", m.name)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, changed, 0); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestAPatchIsAppliedWhereItsLinesHaveMoved(t *testing.T) {
	m, err := parse("why\n--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.apply("new\na\nb\nc\n"); err != nil || got != "new\na\nB\nc\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := m.apply("a\nx\nc\n"); err == nil || !strings.Contains(err.Error(), "not there any more") {
		t.Errorf("a patch of lines that are gone: %v", err)
	}
}
