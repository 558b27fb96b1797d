package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func TestAPictureShowsLinesAndColoursAtTheirTimes(t *testing.T) {
	f := film{title: `what "it" <does>`, columns: 20, rows: 3, pause: 2 * time.Second, line: time.Second / 4, hold: 3 * time.Second}
	got, err := f.picture("make it", []event{
		{at: 5 * time.Second, text: "first\r\n"},
		{at: 6 * time.Second, text: "a \x1b[1;32mgreen\x1b[0m & bold wo"},
		{at: 6 * time.Second, text: "rd\r\n\r\n"},
		{at: time.Hour, text: "after an hour\r\n\x1b[33mand <more>\x1b[m\r\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/picture.svg"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s\nIf the new one is right: go test ./test/recording -update", got, want)
	}
	wellFormed(t, got)
}

func TestATerminalRefusesWhatItCannotShow(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"the cursor moves", "one\x1b[2Ktwo", `"\x1b"`},
		{"a line is written over", "50 %\r100 %", "wrote over a line"},
		{"an unknown style", "\x1b[7mreverse", `style "7"`},
		{"a bell", "wake up\a", `"\a"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			terminal := terminal{columns: 80}
			if err := terminal.write(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q: got %v, want an error with %q", tc.text, err, tc.want)
			}
		})
	}
}

func TestALongLineGoesOnInTheNextOne(t *testing.T) {
	terminal := terminal{columns: 4}
	if err := terminal.write("abcdefghij\r\nk"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range terminal.lines {
		text := ""
		for _, s := range line {
			text += s.text
		}
		got = append(got, text)
	}
	if want := []string{"abcd", "efgh", "ij", "k"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Someone's browser plays it, so it must do nothing but move.
func TestThePictureOfTheREADMEIsOneThatPlaysByItself(t *testing.T) {
	picture, err := os.ReadFile("../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, picture)
	for _, no := range []string{"<script", "href", "url(", "@import", "foreignObject"} {
		if bytes.Contains(picture, []byte(no)) {
			t.Errorf("docs/demo.svg has %s", no)
		}
	}
	for _, shown := range []string{"make demo", "ContainerRuntimeUnhealthy=True", "recovered", "kubectl nodemend"} {
		if !bytes.Contains(picture, []byte(shown)) {
			t.Errorf("docs/demo.svg does not show %q: make recording", shown)
		}
	}
}

func TestAProgramIsRecordedInATerminal(t *testing.T) {
	events, err := record(t.Context(), 40, 10, []string{"sh", "-c", "test -t 1 && stty size; echo done"})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range events {
		all.WriteString(e.text)
	}
	if got, want := all.String(), "10 40\r\ndone\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := record(t.Context(), 40, 10, []string{"sh", "-c", "exit 3"}); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that fails: %v", err)
	}
}

func wellFormed(t *testing.T, picture []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
