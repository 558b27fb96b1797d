package clock

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// Reasons of the condition.
const (
	// ReasonOff: the clock and the API server's are certainly further apart than MaxOffset.
	ReasonOff = "ClockOff"
	// ReasonServiceDown: no time service has corrected the clock for too long, and the one that
	// is to run does not.
	ReasonServiceDown = "TimeServiceDown"
	// ReasonNotSynchronised: no time service has corrected the clock for too long.
	ReasonNotSynchronised = "ClockNotSynchronised"
	// ReasonNotCompared, with Unknown: it is not certain how far the clock is from the API
	// server's.
	ReasonNotCompared = "ClockNotCompared"
	// ReasonNotSeen, with Unknown: the kernel does not tell how right the clock is.
	ReasonNotSeen = "ClockNotSeen"
	// ReasonHealthy: none of these.
	ReasonHealthy = "ClockHealthy"
)

const (
	// phaseLimit is the kernel's NTP_PHASE_LIMIT: the largest error that it tells, and what it
	// tells when nobody has corrected the clock since the boot or since it was set.
	phaseLimit = 16 * time.Second
	// growth is by how much the kernel lets the error grow while nobody corrects the clock,
	// as a part of the time that passes (MAXFREQ).
	growth = 0.0005
)

// seen is what one run has seen.
type seen struct {
	// alone is whether there is no API server to compare with.
	alone bool
	// answered is whether the API server has answered, and ahead how far its clock is ahead.
	answered bool
	ahead    serverclock.Bounds
	// err is why the kernel does not tell the rest.
	err error
	// maxError is how far the clock may be off. A time service sets it whenever it corrects
	// the clock. The flag STA_UNSYNC tells less: chrony leaves it set unless it is to set the
	// hardware's clock, too (rtcsync).
	maxError time.Duration
	// state is the clock's, such as TIME_INS.
	state int
	// stopped tells of the time service that is to run and does not; "" if none is known.
	stopped string
}

// judge tells whether the clock is right.
func (s seen) judge(maxOffset, maxError time.Duration) checks.Result {
	service := s.service(maxError)
	switch {
	case s.answered && s.ahead.Beyond(maxOffset):
		return checks.Problem(ReasonOff, join(s.compared(), service))
	case s.late(maxError) && s.stopped != "":
		return checks.Problem(ReasonServiceDown, join(s.stopped, service, s.compared()))
	case s.late(maxError):
		return checks.Problem(ReasonNotSynchronised, join(service, s.compared()))
	case s.err != nil && maxError > 0:
		return checks.CannotTell(ReasonNotSeen, join(service, s.compared()))
	case s.alone, s.answered && s.ahead.Within(maxOffset):
		return checks.Healthy(ReasonHealthy, join(s.compared(), service))
	default:
		return checks.CannotTell(ReasonNotCompared, join(s.compared(), service))
	}
}

// late reports whether no time service has corrected the clock for too long.
func (s seen) late(maxError time.Duration) bool {
	return s.err == nil && maxError > 0 && s.maxError >= maxError
}

// compared tells how far the API server's clock is from this one.
func (s seen) compared() string {
	if s.alone {
		return ""
	}
	if !s.answered {
		return "the API server has not answered, so its clock is not known"
	}
	least, most := s.ahead.Least, s.ahead.Most
	switch {
	case least > 0:
		return fmt.Sprintf("the clock is %s behind the API server's", between(least, most))
	case most < 0:
		return fmt.Sprintf("the clock is %s ahead of the API server's", between(-most, -least))
	default:
		return fmt.Sprintf("the clock is within %s of the API server's", round(max(-least, most)))
	}
}

// between names a duration that is between two.
func between(least, most time.Duration) string {
	if least, most := least.Round(time.Second), most.Round(time.Second); least == most {
		return least.String()
	}
	return round(least) + " to " + round(most)
}

func round(d time.Duration) string {
	if d < 100*time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// service tells what the time service has told the kernel.
func (s seen) service(maxError time.Duration) string {
	if maxError == 0 {
		return ""
	}
	if s.err != nil {
		return "adjtimex: " + s.err.Error()
	}
	var text string
	switch {
	case s.maxError >= phaseLimit:
		text = fmt.Sprintf("no time service has corrected the clock since it was set or the node has booted, or for %s: does one run, and reach its servers?", grown(phaseLimit))
	case s.maxError >= maxError:
		text = fmt.Sprintf("by the kernel's bound the clock may be %s off: no time service has corrected it for up to %s", round(s.maxError), grown(s.maxError))
	default:
		text = "by the kernel's bound it is right to within " + round(s.maxError)
	}
	switch s.state {
	case unix.TIME_INS:
		text = join(text, "a leap second will be inserted at the end of the day")
	case unix.TIME_DEL:
		text = join(text, "a leap second will be left out at the end of the day")
	}
	return text
}

// grown is how long it takes until the kernel's bound is that large.
func grown(bound time.Duration) string {
	text := time.Duration(float64(bound) / growth).Round(time.Minute).String()
	return strings.TrimSuffix(text, "0s")
}

// join joins what there is of some texts.
func join(texts ...string) string {
	var all []string
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}
