package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
)

// observation is what one run has seen.
type observation struct {
	// plain and secure are the answers to /healthz of the two servers.
	plain, secure answer
	// unit is valid if unitErr is nil.
	unit    unit
	unitErr error
}

// answer is valid if err is nil.
type answer struct {
	response kubeletapi.Response
	err      error
}

// memory is what earlier runs, and the present one, have seen last.
type memory struct {
	maxRestarts int
	restarts    restarts
	// syncLoopFailed is whether the sync loop was failing when it was seen last.
	syncLoopFailed bool
}

// learn takes note of what a run has seen.
func (m *memory) learn(seen observation, now time.Time) {
	if seen.unitErr == nil {
		m.restarts.see(seen.unit, now)
	}
	if failures, told := seen.secure.failures(); told {
		m.syncLoopFailed = slices.Contains(failures, "syncloop")
	}
}

func (m memory) restarting() bool { return m.restarts.count() > m.maxRestarts }

// judge returns the verdict on what a run has seen and memory has learned. A
// kubelet that keeps restarting has one reason, whatever a run meets.
func judge(seen observation, m memory) checks.Result {
	if m.restarting() && seen.unitErr == nil {
		return checks.Problem(ReasonRestarting, fmt.Sprintf("systemd has restarted %s at least %d times within %s (accepted: %d); %s",
			seen.unit.name, m.restarts.count(), m.restarts.window, m.maxRestarts, seen.plain))
	}
	if result, problem := judgePlain(seen); problem {
		return result
	}
	if result, problem := judgeSecure(seen, m); problem {
		return result
	}
	if m.restarting() {
		return checks.CannotTell(ReasonUnitNotSeen, fmt.Sprintf("the kubelet answers, but it was restarting: %v", seen.unitErr))
	}
	return checks.Healthy(ReasonHealthy, seen.String())
}

// judgePlain judges the plain /healthz; ok is false if nothing is wrong there.
func judgePlain(seen observation) (result checks.Result, found bool) {
	err := seen.plain.err
	switch {
	case err == nil && seen.plain.response.Status == http.StatusOK:
		return checks.Result{}, false
	case err == nil:
		return checks.Problem(ReasonHealthzFailed, seen.String()), true
	case errors.Is(err, syscall.ECONNREFUSED):
		return judgeRefused(seen)
	case errors.Is(err, context.DeadlineExceeded):
		return checks.Problem(ReasonHealthzTimeout, seen.String()), true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return checks.Problem(ReasonConnectionLost, seen.String()), true
	default:
		return checks.CannotTell(ReasonHealthzUnreadable, seen.String()), true
	}
}

// judgeRefused judges a plain /healthz that nobody serves. It can be switched
// off (healthzPort: 0); the other server then shows whether the kubelet is alive.
func judgeRefused(seen observation) (result checks.Result, found bool) {
	_, told := seen.secure.failures()
	switch {
	case told:
		return checks.Result{}, false
	case !errors.Is(seen.secure.err, syscall.ECONNREFUSED):
		return checks.CannotTell(ReasonHealthzNotServed, seen.String()+"; set kubelet.healthzEndpoint to where the kubelet serves it (healthzPort)"), true
	case seen.unitErr == nil && seen.unit.activeState == "failed":
		return checks.Problem(ReasonUnitFailed, seen.String()), true
	default:
		return checks.Problem(ReasonConnectionRefused, seen.String()), true
	}
}

// judgeSecure judges the /healthz of the authenticated server.
func judgeSecure(seen observation, m memory) (result checks.Result, found bool) {
	failures, told := seen.secure.failures()
	switch {
	case slices.Contains(failures, "syncloop"):
		return checks.Problem(ReasonSyncLoopFailed, seen.String()), true
	case len(failures) > 0:
		return checks.Problem(ReasonHealthzFailed, seen.String()), true
	case !told && m.syncLoopFailed, errors.Is(seen.secure.err, context.DeadlineExceeded):
		return checks.CannotTell(ReasonSyncLoopNotSeen, seen.String()), true
	default:
		return checks.Result{}, false
	}
}

// failures returns the names of the checks of the kubelet that fail; told is
// false if the answer does not say. Failing, it has a line for each check, such
// as "[-]syncloop failed: reason withheld" (k8s.io/apiserver/pkg/server/healthz).
func (a answer) failures() (names []string, told bool) {
	if a.err != nil {
		return nil, false
	}
	if a.response.Status == http.StatusOK {
		return nil, true
	}
	for line := range bytes.Lines(a.response.Body) {
		if failure, ok := bytes.CutPrefix(line, []byte("[-]")); ok {
			name, _, _ := strings.Cut(string(failure), " ")
			names = append(names, name)
		}
	}
	return names, len(names) > 0
}

// String is the message of most verdicts: all that was seen.
func (o observation) String() string {
	syncLoop := "its sync loop turns"
	if failures, told := o.secure.failures(); !told {
		syncLoop = "its sync loop was not seen: " + o.secure.String()
	} else if len(failures) > 0 {
		syncLoop = "these of its checks fail: " + strings.Join(failures, ", ")
	}
	state := fmt.Sprintf("its systemd unit was not seen: %v", o.unitErr)
	if o.unitErr == nil {
		state = fmt.Sprintf("%s is %s (%s)", o.unit.name, o.unit.activeState, o.unit.subState)
	}
	return fmt.Sprintf("the kubelet's /healthz: %s; %s; %s", o.plain, syncLoop, state)
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	const most = 100
	body := bytes.TrimSpace(a.response.Body)
	if len(body) > most {
		body = append(bytes.Clone(body[:most]), "..."...)
	}
	body = bytes.ReplaceAll(body, []byte{'\n'}, []byte("; "))
	return fmt.Sprintf("%d %s", a.response.Status, body)
}
