package clock

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/serverclock"
)

func TestAClockIsOffOrNotSynchronisedOnlyIfThatIsCertain(t *testing.T) {
	const ms = time.Millisecond
	near := serverclock.Bounds{Least: -200 * ms, Most: 300 * ms}
	for name, tc := range map[string]struct {
		seen seen
		// maxError is 5 s if that is not given.
		maxError *time.Duration
		want     checks.Result
	}{
		"right": {
			seen: seen{answered: true, ahead: near, maxError: 12300 * time.Microsecond},
			want: checks.Healthy(ReasonHealthy, "the clock is within 300ms of the API server's; by the kernel's bound it is right to within 12.3ms"),
		},
		"behind": {
			seen: seen{answered: true, ahead: serverclock.Bounds{Least: 59*time.Minute + 59600*ms, Most: time.Hour + 100*ms}, maxError: 20 * ms},
			want: checks.Problem(ReasonOff, "the clock is 1h0m0s behind the API server's; by the kernel's bound it is right to within 20ms"),
		},
		"ahead, as somebody has set it": {
			seen: seen{answered: true, ahead: serverclock.Bounds{Least: -12200 * ms, Most: -11300 * ms}, maxError: 16 * time.Second},
			want: checks.Problem(ReasonOff, "the clock is 11.3s to 12.2s ahead of the API server's; no time service has corrected the clock since it was set or the node has booted, or for 8h53m: does one run, and reach its servers?"),
		},
		"perhaps too far": {
			seen: seen{answered: true, ahead: serverclock.Bounds{Least: 9500 * ms, Most: 10500 * ms}, maxError: 20 * ms},
			want: checks.CannotTell(ReasonNotCompared, "the clock is 9.5s to 10.5s behind the API server's; by the kernel's bound it is right to within 20ms"),
		},
		"no time service": {
			seen: seen{answered: true, ahead: near, maxError: 16 * time.Second, state: unix.TIME_ERROR},
			want: checks.Problem(ReasonNotSynchronised, "no time service has corrected the clock since it was set or the node has booted, or for 8h53m: does one run, and reach its servers?; the clock is within 300ms of the API server's"),
		},
		"no time service, and nobody asks for one": {
			seen:     seen{answered: true, ahead: near, maxError: 16 * time.Second, state: unix.TIME_ERROR},
			maxError: new(time.Duration),
			want:     checks.Healthy(ReasonHealthy, "the clock is within 300ms of the API server's"),
		},
		"the time service is down": {
			seen: seen{answered: true, ahead: near, maxError: 5 * time.Second, stopped: "chrony.service is failed (failed)"},
			want: checks.Problem(ReasonServiceDown, "chrony.service is failed (failed); by the kernel's bound the clock may be 5s off: no time service has corrected it for up to 2h47m; the clock is within 300ms of the API server's"),
		},
		"the time service's servers are away": {
			seen: seen{answered: true, ahead: near, maxError: 5 * time.Second},
			want: checks.Problem(ReasonNotSynchronised, "by the kernel's bound the clock may be 5s off: no time service has corrected it for up to 2h47m; the clock is within 300ms of the API server's"),
		},
		"chrony without rtcsync, which leaves STA_UNSYNC set": {
			seen: seen{answered: true, ahead: near, maxError: 600 * ms, state: unix.TIME_ERROR},
			want: checks.Healthy(ReasonHealthy, "the clock is within 300ms of the API server's; by the kernel's bound it is right to within 600ms"),
		},
		"a leap second to come": {
			seen: seen{answered: true, ahead: near, maxError: ms, state: unix.TIME_INS},
			want: checks.Healthy(ReasonHealthy, "the clock is within 300ms of the API server's; by the kernel's bound it is right to within 1ms; a leap second will be inserted at the end of the day"),
		},
		"a leap second to come that is none": {
			seen: seen{answered: true, ahead: near, maxError: ms, state: unix.TIME_DEL},
			want: checks.Healthy(ReasonHealthy, "the clock is within 300ms of the API server's; by the kernel's bound it is right to within 1ms; a leap second will be left out at the end of the day"),
		},
		"in a leap second": {
			seen: seen{answered: true, ahead: serverclock.Bounds{Least: 800 * ms, Most: 1200 * ms}, maxError: ms, state: unix.TIME_OOP},
			want: checks.Healthy(ReasonHealthy, "the clock is 1s behind the API server's; by the kernel's bound it is right to within 1ms"),
		},
		"after a leap second": {
			seen: seen{answered: true, ahead: near, maxError: ms, state: unix.TIME_WAIT},
			want: checks.Healthy(ReasonHealthy, "the clock is within 300ms of the API server's; by the kernel's bound it is right to within 1ms"),
		},
		"no answer": {
			seen: seen{maxError: 20 * ms},
			want: checks.CannotTell(ReasonNotCompared, "the API server has not answered, so its clock is not known; by the kernel's bound it is right to within 20ms"),
		},
		"no API server": {
			seen: seen{alone: true, maxError: 20 * ms},
			want: checks.Healthy(ReasonHealthy, "by the kernel's bound it is right to within 20ms"),
		},
		"the kernel does not tell": {
			seen: seen{answered: true, ahead: near, err: unix.EPERM},
			want: checks.CannotTell(ReasonNotSeen, "adjtimex: operation not permitted; the clock is within 300ms of the API server's"),
		},
		"the kernel does not tell, and the clock is off": {
			seen: seen{answered: true, ahead: serverclock.Bounds{Least: time.Minute, Most: time.Minute}, err: unix.EPERM},
			want: checks.Problem(ReasonOff, "the clock is 1m0s behind the API server's; adjtimex: operation not permitted"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			maxError := 5 * time.Second
			if tc.maxError != nil {
				maxError = *tc.maxError
			}
			if got := tc.seen.judge(10*time.Second, maxError); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// apiServer answers with the time by its clock.
type apiServer struct {
	t *testing.T
	// clock is the node's, and ahead how far the server's is ahead of it.
	clock *serverclock.Clock
	ahead time.Duration
	down  bool
	asked int
}

func (s *apiServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked++
	if s.down {
		return nil, errors.New("down")
	}
	date := clock.RealClock{}.Now().Add(s.ahead).UTC().Format(http.TimeFormat)
	return &http.Response{Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func (s *apiServer) ask(context.Context) error {
	response, err := s.clock.Wrap(s).RoundTrip(&http.Request{})
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestARunAsksTheAPIServerIfItsTimeIsNotKnown(t *testing.T) {
	s := &apiServer{t: t, clock: serverclock.New(clock.RealClock{}), down: true, ahead: time.Hour}
	c, err := New(Options{
		MaxOffset: 10 * time.Second, MaxError: 5 * time.Second, Timeout: time.Second, Server: s.clock, Ask: s.ask,
		Adjtimex: func(k *unix.Timex) (int, error) {
			k.Maxerror = 20_000
			return unix.TIME_ERROR, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	run := func(what, reason string, asked int) {
		t.Helper()
		if got := c.Run(t.Context()); got.Reason != reason || s.asked != asked {
			t.Errorf("%s: %+v, the API server was asked %d times, want %s, %d", what, got, s.asked, reason, asked)
		}
	}
	run("no answer", ReasonNotCompared, 1)
	s.down = false
	run("an answer", ReasonOff, 2)
	run("which is enough", ReasonOff, 2)
	s.ahead = 0
	if err := s.ask(t.Context()); err != nil { // somebody else asks
		t.Fatal(err)
	}
	run("the clock was set", ReasonHealthy, 3)
}

func TestSystemdIsAskedOnlyIfNobodyCorrectsTheClock(t *testing.T) {
	maxError, asked := int64(20_000), 0
	c, err := New(Options{
		MaxError: 5 * time.Second, Timeout: time.Second,
		Adjtimex: func(k *unix.Timex) (int, error) {
			k.Maxerror = maxError
			return unix.TIME_OK, nil
		},
		Stopped: func(context.Context) (string, error) {
			asked++
			return "chrony.service is inactive (dead)", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Run(t.Context()); got.Reason != ReasonHealthy || asked != 0 {
		t.Errorf("it is right: got %+v, asked %d times", got, asked)
	}
	maxError = 6_000_000
	if got := c.Run(t.Context()); got.Reason != ReasonServiceDown {
		t.Errorf("the service is down: got %+v", got)
	}
}

func TestThereIsNothingToCheckIfNothingTellsTheTime(t *testing.T) {
	_, err := New(Options{MaxOffset: time.Second, Timeout: time.Second})
	if off := (checks.Off{}); !errors.As(err, &off) {
		t.Errorf("got the error %v", err)
	}
}

func TestTheKernelOfThisMachineTellsHowRightItsClockIs(t *testing.T) {
	c, err := New(Options{MaxError: 5 * time.Second, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Run(t.Context())
	t.Log(got)
	if got.Reason != ReasonHealthy && got.Reason != ReasonNotSynchronised && got.Reason != ReasonServiceDown {
		t.Errorf("got %+v", got)
	}
}
