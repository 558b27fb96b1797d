package serverclock

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// server answers a clock's requests.
type server struct {
	t *testing.T
	// ahead is how far its clock is ahead of the true time.
	ahead time.Duration
}

// answer lets the clock ask. The server writes its date so long after it was asked; the
// answer comes so long after that.
func (s *server) answer(c *Clock, there, back time.Duration) {
	s.t.Helper()
	response, err := c.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		time.Sleep(there)
		date := time.Now().Add(s.ahead).UTC().Format(http.TimeFormat)
		time.Sleep(back)
		return &http.Response{Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
	})).RoundTrip(&http.Request{})
	if err != nil {
		s.t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestTheBoundsOfTheDifferenceHoldTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &stepped{}
		c := New(local)
		began := time.Now()
		c.sinceBoot = func() time.Duration { return time.Since(began) }
		s := &server{t: t}
		if _, known := c.Ahead(); known {
			t.Error("known before any answer")
		}
		check := func(what string, width time.Duration) {
			t.Helper()
			b, known := c.Ahead()
			truth := s.ahead - local.by
			if !known || b.Least > truth || b.Most < truth || b.Most-b.Least > width {
				t.Errorf("%s: %+v, known: %t; want %s, to within %s", what, b, known, truth, width)
			}
		}
		time.Sleep(300 * time.Millisecond)
		s.answer(c, 10*time.Second, 2*time.Second)
		check("a slow answer", 13*time.Second)
		s.answer(c, 0, 0)
		check("a quick one", time.Second)
		s.answer(c, 0, 20*time.Second)
		check("a slow one that comes later", 1100*time.Millisecond)
		for range 20 {
			time.Sleep(730 * time.Millisecond)
			s.answer(c, 0, time.Millisecond)
		}
		check("many answers tell more than one", 100*time.Millisecond)
		local.by = time.Hour
		check("the local clock was set", 100*time.Millisecond)
		time.Sleep(time.Hour)
		check("an hour without an answer", 8*time.Second)
		s.ahead = -time.Minute
		s.answer(c, 0, 0)
		check("the server's clock was set", time.Second)
		local.by = 0
		check("and the local one", time.Second)
	})
}

func TestOnlyWhatIsCertainIsWithinOrBeyond(t *testing.T) {
	const limit = 10 * time.Second
	for _, tc := range []struct {
		b              Bounds
		within, beyond bool
	}{
		{Bounds{-time.Second, time.Second}, true, false},
		{Bounds{-limit, limit}, true, false},
		{Bounds{9 * time.Second, 11 * time.Second}, false, false},
		{Bounds{-11 * time.Second, -9 * time.Second}, false, false},
		{Bounds{11 * time.Second, 12 * time.Second}, false, true},
		{Bounds{-12 * time.Second, -11 * time.Second}, false, true},
		{Bounds{-time.Hour, time.Hour}, false, false},
	} {
		if within, beyond := tc.b.Within(limit), tc.b.Beyond(limit); within != tc.within || beyond != tc.beyond {
			t.Errorf("%+v: within: %t, beyond: %t", tc.b, within, beyond)
		}
	}
}

func TestTheTimeSinceTheBootPasses(t *testing.T) {
	first := sinceBoot()
	if second := sinceBoot(); first <= 0 || second < first {
		t.Errorf("%s, then %s", first, second)
	}
}
