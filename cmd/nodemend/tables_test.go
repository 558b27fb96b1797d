package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// With another Go they may be of another form: then all of them are kept in memory, which is much.
func TestTheTablesOfFunctionsAreThoseOfThisGo(t *testing.T) {
	l := layoutOf(fixedProgram(t))
	tables, err := readTables(l.tables, l.code)
	if err != nil {
		t.Fatal(err)
	}
	name := func(at uint32) string {
		text, _, _ := bytes.Cut(tables.data[tables.names+int(at):], []byte{0})
		return string(text)
	}
	for _, function := range []any{readTables, strings.Cut, TestTheTablesOfFunctionsAreThoseOfThisGo} {
		pc := reflect.ValueOf(function).Pointer()
		if got, want := name(tables.number(tables.record(tables.search(pc))+4)), runtime.FuncForPC(pc).Name(); got != want {
			t.Errorf("the function at %#x is %s, want %s", pc, got, want)
		}
	}
	// The last of the tables are those of what was inlined where, so all before them must be right.
	inlined := map[string]bool{}
	for i := range tables.count {
		tables.inlined(tables.record(i), func(of uint32) { inlined[name(of)] = true })
	}
	const small = "strings.HasPrefix" // also with the race detector, unlike sync.(*Mutex).Lock
	if !inlined[small] {
		t.Errorf("of %d functions that are inlined somewhere, none is %s", len(inlined), small)
	}
}

// What is renamed is kept no more, and nothing says so but a disk that dies.
func TestWhatIsKeptWholeIsThere(t *testing.T) {
	l := layoutOf(fixedProgram(t))
	tables, err := readTables(l.tables, l.code)
	if err != nil {
		t.Fatal(err)
	}
	for _, beginning := range slices.Concat(whole(), runnersOwn(), detectorsOwn()) {
		if len(tables.of([]string{beginning})) == 0 {
			t.Errorf("no function has a name that begins with %s", beginning)
		}
	}
	pc := reflect.ValueOf(json.Marshal).Pointer()
	if !slices.ContainsFunc(tables.of([]string{"encoding/json."}), func(s segment) bool { return s.from <= pc && pc < s.to }) {
		t.Errorf("the function %s is not among those of its package", runtime.FuncForPC(pc).Name())
	}
	if all := tables.of([]string{""}); len(all) != 1 || all[0].from != l.code.from {
		t.Errorf("all functions lie at %x, want one segment, of %x", all, l.code)
	}
}
