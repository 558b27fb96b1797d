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
