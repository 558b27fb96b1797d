package systemlog

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/node-problem-detector/pkg/systemlogmonitor"
	logtypes "k8s.io/node-problem-detector/pkg/systemlogmonitor/types"
)

// compare pushes lines to a buffer and to node-problem-detector's, and compares what they
// find after each.
func compare(t *testing.T, size int, patterns, lines []string) {
	t.Helper()
	ours, theirs := newBuffer(size), systemlogmonitor.NewLogBuffer(size)
	ready := make([]*pattern, len(patterns))
	for i, p := range patterns {
		ready[i] = newPattern(p)
	}
	for n, line := range lines {
		at := time.Unix(int64(n), 0)
		ours.push(&logLine{Timestamp: at, Message: line})
		theirs.Push(&logtypes.Log{Timestamp: at, Message: line})
		for i, p := range patterns {
			var want []string
			matched := theirs.Match(p)
			for _, l := range matched {
				want = append(want, l.Message)
			}
			message, first, found := ours.match(ready[i])
			switch {
			case found != (len(want) > 0), message != strings.Join(want, "\n"):
				t.Fatalf("%q in %q (size %d): found %v %q, want %q", p, lines[:n+1], size, found, message, want)
			case found && !first.Equal(matched[0].Timestamp):
				t.Fatalf("%q in %q (size %d): first at %s, want %s", p, lines[:n+1], size, first, matched[0].Timestamp)
			}
		}
	}
}

func TestABufferFindsWhatThatOfNPDFinds(t *testing.T) {
	patterns := []string{
		"foo", "foo.*", ".*foo", "^foo", "(?m)^foo", "foo$", `\Afoo`, `\bfoo\b`, "foo|bar", "(foo|bar)", "(?:foo|bar).*", "foo|",
		"(?i)FOO", "(?i)foo|bar.*", "f(oo)+.*", "f(oo)?", "(foo){2}", "(foo){0,2}bar", "[^x]*bar", `\s*bar`, `foo\nbar`, `\nbar`, `bar\n`, `foo.*\n.*bar.*`,
		"(?s)foo.*bar", "(?s).*", ".*", "", `foo\s+bar`, `\S+`, "\uFFFDfoo", "�", ".foo", `[\S ]+bar`, `\Qfoo`, `foo\z|bar`, "a|b|c|d|e|f|g|h|i|foo",
	}
	words := []string{"foo", "bar", " ", "x", "\xff", "\n", "FOO", "\uFFFD", "ſ", ""}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	for range 300 {
		lines := make([]string, 12)
		for i := range lines {
			for range random.IntN(4) {
				lines[i] += words[random.IntN(len(words))]
			}
		}
		compare(t, []int{1, 2, 3, 10}[random.IntN(4)], patterns, lines)
	}
}

func TestABufferIsBounded(t *testing.T) {
	b, p := newBuffer(maxBuffer), newPattern(`(?s)begin.*end`)
	long := strings.Repeat("x", maxLine)
	for i := range 100 {
		b.push(&logLine{Timestamp: time.Unix(int64(i), 0), Message: long})
		if _, _, found := b.match(p); found {
			t.Fatal("found what is not there")
		}
	}
	if live := len(b.text) - b.begin; live > maxBuffered || cap(b.text) > 4*maxBuffered {
		t.Errorf("%d bytes are kept in %d, want %d at the most", live, cap(b.text), maxBuffered)
	}
	b.push(&logLine{Timestamp: time.Unix(1000, 0), Message: "begin"})
	b.match(p)
	b.push(&logLine{Timestamp: time.Unix(1001, 0), Message: "the end"})
	if message, first, found := b.match(p); !found || message != "begin\nthe end" || first.Unix() != 1000 {
		t.Errorf("found %v: %q of %s", found, message, first)
	}
}

func TestAPatternIsLookedForWhereItCanBe(t *testing.T) {
	for _, tc := range []struct {
		expression string
		literals   string // "": none
		ownLine    bool
	}{
		{`Killed process \d+ (.+) total-vm:\d+kB.*`, "Killed process ", true},
		{`.*\[Hardware Error\]: event severity: fatal$`, "[Hardware Error]: event severity: fatal", true},
		{`task [\S ]+:\w+ blocked for more than \w+ seconds\.`, " blocked for more than ", true},
		{`BUG: .*\n.*RIP: .*`, "BUG: ", false},
		{`Started (kubelet|docker).`, "Started ", true},
		{`(?i)soft lockup`, "", true},
		{`oom|hang`, "oom hang", false},
		{`[^x]*end of it`, "end of it", false},
		{`.*`, "", true},
	} {
		p := newPattern(tc.expression)
		if got := strings.Join(p.literals, " "); got != tc.literals || p.ownLine != tc.ownLine {
			t.Errorf("%s: literals %q, own line %v; want %q, %v", tc.expression, got, p.ownLine, tc.literals, tc.ownLine)
		}
	}
}

func FuzzABufferFindsWhatThatOfNPDFinds(f *testing.F) {
	f.Add("foo|bar", "a foo\x00bar\x00", 2)
	f.Add(`x\ny`, "x\x00y", 10)
	f.Fuzz(func(t *testing.T, expression, lines string, size int) {
		if _, err := regexp.Compile(expression + `\z`); err != nil || size < 1 || size > 20 {
			return
		}
		if _, err := regexp.Compile(expression); err != nil {
			return
		}
		compare(t, size, []string{expression}, strings.Split(lines, "\x00"))
	})
}
