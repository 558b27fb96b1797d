package main

import (
	"fmt"
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
		for _, c := range m.changes {
			if err := check(c); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
}

// check applies a change to the product as it is.
func check(c change) error {
	source, err := os.ReadFile(filepath.Join("..", "..", "..", c.file))
	if err != nil {
		return err
	}
	changed, err := c.apply(string(source))
	if err != nil {
		return err
	}
	if changed == string(source) {
		return fmt.Errorf("%s is not changed", c.file)
	}
	_, err = parser.ParseFile(token.NewFileSet(), c.file, changed, 0)
	return err
}

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
