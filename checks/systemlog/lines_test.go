package systemlog

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestLinesAreCutAtNewlinesAndBounded(t *testing.T) {
	var got []string
	w := &lineWriter{emit: func(line []byte) error {
		got = append(got, string(line))
		return nil
	}}
	for _, p := range []string{"a", "b\n\nc\nd", strings.Repeat("x", maxLine), "lost\ne"} {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"ab", "", "c", "d" + strings.Repeat("x", maxLine-1)}; !slices.Equal(got, want) {
		t.Errorf("got %d lines %.20q", len(got), got)
	}
	w.reset()
	failure := errors.New("full")
	w.emit = func(line []byte) error {
		if string(line) != "f" {
			t.Errorf("got %q after reset", line)
		}
		return failure
	}
	if _, err := w.Write([]byte("f\n")); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
