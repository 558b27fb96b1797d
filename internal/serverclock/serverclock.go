// Package serverclock corrects the local clock by the API server's, since times
// that nodes write are compared with those of others.
package serverclock

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// tolerance is the difference of clocks that is left uncorrected: the Date of
// an answer has whole seconds and travels for some time.
const tolerance = 3 * time.Second

// Clock learns from the API server's answers what time it is there, since the times in a
// Node's conditions are compared with the server's and the controller's. Once it has an
// answer, it does not jump with the local clock. It may be used concurrently.
type Clock struct {
	local clock.PassiveClock
	known atomic.Pointer[known]
	start known
	// difference is that of the server's clock and sinceBoot.
	difference difference
	sinceBoot  func() time.Duration
}

// known is what time it was at a moment, which has a reading of the monotonic clock.
type known struct{ moment, time time.Time }

// New returns a clock that is the local one until the server has answered.
func New(local clock.PassiveClock) *Clock {
	return &Clock{local: local, start: known{moment: time.Now(), time: local.Now().Round(0)}, sinceBoot: sinceBoot}
}

// Now returns the time. It errs towards the past, by up to a second and the duration of
// a request, if the local clock was off when the server answered first, else by a few seconds.
func (c *Clock) Now() time.Time {
	if k := c.known.Load(); k != nil {
		return k.time.Add(time.Since(k.moment))
	}
	return c.local.Now()
}

// Since returns the time since t. It makes the Clock a PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Offset is what has to be added to local times as they are now; zero if the clocks differ
// by less than a few seconds.
func (c *Clock) Offset() time.Duration {
	if offset := c.Now().Sub(c.local.Now()); offset.Abs() >= tolerance {
		return offset
	}
	return 0
}

// Answered reports whether the server has answered, so that its time is known.
func (c *Clock) Answered() bool { return c.known.Load() != nil }

// Steady is the local time at New and what has passed since then: no step of the local
// clock moves it, and no answer.
func (c *Clock) Steady() time.Time { return c.start.time.Add(time.Since(c.start.moment)) }

// Correction is what has to be added to Steady; zero if it is less than a few seconds. It
// changes when an answer shows that Now is wrong and, before the first answer, with the
// local clock.
func (c *Clock) Correction() time.Duration {
	correction := c.apart()
	if k := c.known.Load(); k != nil {
		correction = k.time.Sub(c.start.time) - k.moment.Sub(c.start.moment)
	}
	if correction.Abs() < tolerance {
		return 0
	}
	return correction
}

// apart is the local time less Steady: it changes when the local clock is set, and when
// the machine was suspended, which the monotonic clock does not see.
func (c *Clock) apart() time.Duration { return c.local.Now().Sub(c.Steady()) }

// Steps tells steps of the local clock, and suspensions of the machine. Its zero value is
// that of a clock that was not looked at yet.
type Steps struct {
	apart time.Duration
	known bool
}

// Stepped reports whether there was one since the last call, of a few seconds at least.
func (s *Steps) Stepped(c *Clock) bool {
	apart := c.apart()
	stepped := s.known && (apart-s.apart).Abs() >= tolerance
	if stepped || !s.known {
		s.apart, s.known = apart, true
	}
	return stepped
}

// Wrap returns a transport that learns from every answer; made for
// rest.Config.Wrap.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		var steps Steps
		steps.Stepped(c)
		asked := c.sinceBoot()
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		date, err := http.ParseTime(response.Header.Get("Date"))
		if err != nil {
			return response, nil //nolint:nilerr // that of the answer is not of the request
		}
		c.difference.learn(date, asked, c.sinceBoot())
		if steps.Stepped(c) && c.Answered() {
			return response, nil // the machine may have slept since the server wrote its date
		}
		c.learn(date)
		return response, nil
	})
}

// learn takes in that the server's clock showed date, rounded down, some time
// before now. So it is at least that late.
func (c *Clock) learn(date time.Time) {
	now := c.Now()
	if date.Sub(now).Abs() >= tolerance {
		now = date
	} else if c.known.Load() != nil {
		return
	}
	c.known.Store(&known{moment: time.Now(), time: now})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
