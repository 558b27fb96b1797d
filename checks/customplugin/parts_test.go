package customplugin

import (
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nodemend/nodemend/checks"
)

func TestTheMessageIsBoundedValidText(t *testing.T) {
	for name, tc := range map[string]struct {
		output string
		limit  int
		want   string
	}{
		"space around it is cut":                  {" \n disk is bad\n\n", 80, "disk is bad"},
		"longer than the limit":                   {"disk is bad", 4, "disk"},
		"a rune is not split":                     {"12é", 3, "12"},
		"invalid bytes are replaced":              {"a\xff\xfeb", 80, "a\uFFFDb"},
		"what replaces them counts for the limit": {"a\xffb", 3, "a"},
		"no output is wanted":                     {"disk is bad", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(tc.output, tc.limit); got != tc.want || !utf8.ValidString(got) || len(got) > tc.limit {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRulesRunMoreOftenWhileTheirConditionIsNotFalseAndForTenMinutesAfter(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := pace{interval: time.Hour, problemInterval: time.Minute}
	for _, step := range []struct {
		after  time.Duration
		status checks.Status
		want   time.Duration
	}{
		{0, checks.False, time.Hour},
		{1 * time.Minute, checks.Unknown, time.Minute},
		{2 * time.Minute, checks.True, time.Minute},
		{50 * time.Minute, checks.False, time.Minute},
		{59 * time.Minute, checks.False, time.Minute},
		{60 * time.Minute, checks.False, time.Hour},
		{61 * time.Minute, checks.True, time.Minute},
	} {
		now := began.Add(step.after)
		p.saw(step.status, now)
		if got := p.next(now, 0); got != step.want {
			t.Errorf("%s after %s: next round after %s, want %s", step.status, step.after, got, step.want)
		}
	}
}

func TestIntervalsAreUpToATenthShorterAndNeverLonger(t *testing.T) {
	troubled := pace{interval: 10 * time.Second, problemInterval: time.Minute, troubled: true}
	if got := troubled.next(time.Time{}, 0); got != 10*time.Second {
		t.Errorf("a problem interval above the interval made it %s", got)
	}
	never := pace{interval: 10 * time.Second, troubled: true}
	if got := never.next(time.Time{}, 0); got != 10*time.Second {
		t.Errorf("without a problem interval it is %s", got)
	}
	if got := never.next(time.Time{}, 0.5); got != 9500*time.Millisecond {
		t.Errorf("half of the jitter makes it %s, want 9.5s", got)
	}
}

func TestHealthCheckerIsToldNotToRepair(t *testing.T) {
	for name, tc := range map[string]struct {
		path       string
		args, want []string
	}{
		"by default":           {"/usr/bin/health-checker", []string{"--component=cri"}, []string{"--enable-repair=false", "--component=cri"}},
		"whatever the file is": {"./health-checker", []string{"--enable-repair=true", "--component=cri", "--enable-repair"}, []string{"--enable-repair=false", "--component=cri"}},
		"behind a terminator":  {"/health-checker", []string{"--", "--enable-repair=true"}, []string{"--enable-repair=false", "--"}},
		"but no other plugin":  {"/usr/bin/check-health", []string{"--enable-repair"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule{path: tc.path, args: tc.args}
			if repairs(r) != (tc.want != nil) {
				t.Fatalf("taken for health-checker: %v", repairs(r))
			}
			if tc.want != nil && !slices.Equal(withoutRepair(r.args), tc.want) {
				t.Errorf("runs with %q, want %q", withoutRepair(r.args), tc.want)
			}
		})
	}
}
