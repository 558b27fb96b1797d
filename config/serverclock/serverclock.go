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

// Clock learns from the API server's answers how far the local clock is
// off, since the times in a Node's conditions are compared with the server's
// and the controller's. It may be used concurrently.
type Clock struct {
	local  clock.PassiveClock
	offset atomic.Int64
}

// New returns a clock that knows of no difference yet.
func New(local clock.PassiveClock) *Clock { return &Clock{local: local} }

// Offset is what has to be added to local times; zero if the clocks differ by
// less than a few seconds. It errs towards the past, by up to a second and the
// duration of a request.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Now returns the local time, corrected.
func (c *Clock) Now() time.Time { return c.local.Now().Add(c.Offset()) }

// Since returns the time since t, corrected. It makes the Clock a PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Wrap returns a transport that learns from every answer; made for
// rest.Config.Wrap.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			c.learn(date)
		}
		return response, nil
	})
}

// learn takes in that the server's clock showed date, rounded down, some time
// before now. So the true difference is at least the one computed.
func (c *Clock) learn(date time.Time) {
	offset := date.Sub(c.local.Now())
	if offset.Abs() < tolerance {
		offset = 0
	}
	c.offset.Store(int64(offset))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
