package serverclock

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestTheClockCorrectsOnlyRealDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		date func(now time.Time) string
		want time.Duration
	}{
		"in step":        {func(now time.Time) string { return now.Format(http.TimeFormat) }, 0},
		"server ahead":   {func(now time.Time) string { return now.Add(time.Hour).Format(http.TimeFormat) }, time.Hour},
		"server behind":  {func(now time.Time) string { return now.Add(-time.Hour).Format(http.TimeFormat) }, -time.Hour},
		"no usable date": {func(time.Time) string { return "noon" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(clock.RealClock{})
				transport := c.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
					return &http.Response{Header: http.Header{"Date": {tc.date(time.Now().UTC())}}, Body: http.NoBody}, nil
				}))
				response, err := transport.RoundTrip(&http.Request{})
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if got := c.Offset(); got != tc.want {
					t.Errorf("offset %s, want %s", got, tc.want)
				}
				if got, want := c.Now(), time.Now().Add(tc.want); !got.Equal(want) {
					t.Errorf("now %s, want %s", got, want)
				}
			})
		})
	}
}

// stepped is a clock that somebody sets.
type stepped struct {
	clock.RealClock
	by time.Duration
}

func (s *stepped) Now() time.Time { return time.Now().Add(s.by) }

func TestTheClockDoesNotJumpWithTheLocalOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &stepped{by: -time.Hour}
		c := New(local)
		if got, want := c.Now(), time.Now().Add(-time.Hour); !got.Equal(want) {
			t.Errorf("before any answer it is %s, want the local %s", got, want)
		}
		for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
			c.learn(time.Now())
			local.by = step
			time.Sleep(time.Minute)
			if got, want := c.Now(), time.Now(); !got.Equal(want) {
				t.Errorf("set by %s: it is %s, want %s", step, got, want)
			}
			if got := c.Offset(); got != -step {
				t.Errorf("set by %s: offset %s", step, got)
			}
		}
	})
}

func TestTheSteadyClockIsMovedByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &stepped{by: -time.Hour}
		c := New(local)
		for _, tc := range []struct {
			what             string
			set              time.Duration // by which the local clock is off now
			answered         bool
			stepped          bool
			corrected        time.Duration
			serverAheadOfAll time.Duration
		}{
			{what: "nothing", set: -time.Hour},
			{what: "a second is no step", set: -time.Hour + time.Second},
			{what: "set before any answer", set: 0, stepped: true, corrected: time.Hour},
			{what: "answered", set: 0, answered: true, corrected: time.Hour},
			{what: "set after that", set: 2 * time.Hour, stepped: true, corrected: time.Hour},
			{what: "the server was set", set: 2 * time.Hour, answered: true, serverAheadOfAll: time.Minute, corrected: time.Hour + time.Minute},
		} {
			var steps Steps
			steps.Stepped(c)
			before := c.Steady()
			local.by = tc.set
			time.Sleep(time.Minute)
			if tc.answered {
				c.learn(time.Now().Add(tc.serverAheadOfAll))
			}
			if got := c.Steady().Sub(before); got != time.Minute {
				t.Errorf("%s: the steady clock moved by %s in a minute", tc.what, got)
			}
			if got := steps.Stepped(c); got != tc.stepped {
				t.Errorf("%s: stepped: %t", tc.what, got)
			}
			if steps.Stepped(c) {
				t.Errorf("%s: stepped twice", tc.what)
			}
			if got := c.Correction(); got != tc.corrected {
				t.Errorf("%s: correction %s, want %s", tc.what, got, tc.corrected)
			}
		}
	})
}

func TestAnAnswerThatTheMachineHasSleptOverTellsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &stepped{}
		c := New(local)
		c.learn(time.Now())
		want := c.Now()
		response, err := c.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			date := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
			local.by = time.Hour
			return &http.Response{Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
		})).RoundTrip(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := c.Now(); !got.Equal(want) {
			t.Errorf("now %s, want %s", got, want)
		}
	})
}
