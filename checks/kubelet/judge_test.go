package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
)

const window = 10 * time.Minute

// answers are the outcomes of asking for /healthz.
func answered(status int, body string) answer {
	return answer{response: kubeletapi.Response{Status: status, Body: []byte(body)}}
}

func failed(err error) answer { return answer{err: fmt.Errorf("GET /healthz: %w", err)} }

// notOK is what the kubelet answers when one of its checks fails.
func notOK(check string) answer {
	return answered(500, "[+]ping ok\n[-]"+check+" failed: reason withheld\n[+]other ok\nhealthz check failed\n")
}

func expect(t *testing.T, got checks.Result, status checks.Status, reason string, mentions ...string) {
	t.Helper()
	if got.Status != status || got.Reason != reason {
		t.Errorf("got %s %s (%s), want %s %s", got.Status, got.Reason, got.Message, status, reason)
	}
	for _, text := range mentions {
		if !strings.Contains(got.Message, text) {
			t.Errorf("message %q does not mention %q", got.Message, text)
		}
	}
}

func TestVerdicts(t *testing.T) {
	ok := answered(200, "ok")
	refused, timedOut, denied := failed(syscall.ECONNREFUSED), failed(context.DeadlineExceeded), failed(kubeletapi.ErrNoAccess)
	running := unit{name: "kubelet.service", activeState: "active", subState: "running"}
	givenUp := unit{name: "kubelet.service", activeState: "failed", subState: "failed"}
	noBus := errors.New("connecting to systemd over D-Bus: no such file")

	for name, tc := range map[string]struct {
		seen     observation
		memory   memory
		status   checks.Status
		reason   string
		mentions []string
	}{
		"all is well": {
			observation{plain: ok, secure: ok, unit: running}, memory{},
			checks.False, ReasonHealthy, []string{"200 ok", "sync loop turns", "kubelet.service is active (running)"},
		},
		"no D-Bus is no problem": {
			observation{plain: ok, secure: ok, unitErr: noBus}, memory{},
			checks.False, ReasonHealthy, []string{"connecting to systemd over D-Bus"},
		},
		"no access to the sync loop is no problem": {
			observation{plain: ok, secure: denied, unit: running}, memory{},
			checks.False, ReasonHealthy, []string{"sync loop was not seen", "no access"},
		},
		"an authenticated server elsewhere is no problem": {
			observation{plain: ok, secure: refused, unit: running}, memory{}, checks.False, ReasonHealthy, []string{"refused"},
		},
		"an answer that does not tell of the sync loop is no problem": {
			observation{plain: ok, secure: answered(404, "404 page not found"), unit: running}, memory{},
			checks.False, ReasonHealthy, []string{"404 page not found"},
		},
		"a unit that has failed beside a kubelet that answers is no problem": {
			observation{plain: ok, secure: ok, unit: givenUp}, memory{},
			checks.False, ReasonHealthy, []string{"kubelet.service is failed (failed)"},
		},

		// The plain /healthz.
		"nobody listens": {
			observation{plain: refused, secure: refused, unit: unit{name: "kubelet.service", activeState: "inactive", subState: "dead"}}, memory{},
			checks.True, ReasonConnectionRefused, []string{"refused", "kubelet.service is inactive (dead)"},
		},
		"nobody listens, without D-Bus": {
			observation{plain: refused, secure: refused, unitErr: noBus}, memory{}, checks.True, ReasonConnectionRefused, nil,
		},
		"nobody listens, since systemd has given up": {
			observation{plain: refused, secure: refused, unit: givenUp}, memory{},
			checks.True, ReasonUnitFailed, []string{"kubelet.service is failed (failed)"},
		},
		"no answer in time": {
			observation{plain: timedOut, secure: timedOut, unit: running}, memory{}, checks.True, ReasonHealthzTimeout, nil,
		},
		"another answer": {
			observation{plain: answered(500, "broken"), secure: ok, unit: running}, memory{},
			checks.True, ReasonHealthzFailed, []string{"500 broken"},
		},
		"a connection that is reset": {
			observation{plain: failed(syscall.ECONNRESET), secure: refused, unit: running}, memory{}, checks.True, ReasonConnectionLost, nil,
		},
		"a connection that is closed": {
			observation{plain: failed(io.EOF), secure: refused, unit: running}, memory{}, checks.True, ReasonConnectionLost, nil,
		},
		"an endpoint that does not exist tells nothing": {
			observation{plain: failed(errors.New("no such host")), secure: refused, unit: running}, memory{}, checks.Unknown, ReasonHealthzUnreadable, nil,
		},
		"switched off, and the sync loop turns": {
			observation{plain: refused, secure: ok, unit: running}, memory{}, checks.False, ReasonHealthy, []string{"refused", "sync loop turns"},
		},
		"switched off, and the sync loop fails": {
			observation{plain: refused, secure: notOK("syncloop"), unit: running}, memory{}, checks.True, ReasonSyncLoopFailed, nil,
		},
		"switched off, and the sync loop may not be seen": {
			observation{plain: refused, secure: denied, unit: running}, memory{}, checks.Unknown, ReasonHealthzNotServed, []string{"kubelet.healthzEndpoint"},
		},
		"switched off, and the API server can't review the token": {
			observation{plain: refused, secure: timedOut, unit: running}, memory{}, checks.Unknown, ReasonHealthzNotServed, nil,
		},

		// The sync loop.
		"the sync loop fails": {
			observation{plain: ok, secure: notOK("syncloop"), unit: running}, memory{syncLoopFailed: true},
			checks.True, ReasonSyncLoopFailed, []string{"syncloop"},
		},
		"another check of the kubelet fails": {
			observation{plain: ok, secure: notOK("log"), unit: running}, memory{}, checks.True, ReasonHealthzFailed, []string{"checks fail: log"},
		},
		"the sync loop is not seen in time": {
			observation{plain: ok, secure: timedOut, unit: running}, memory{}, checks.Unknown, ReasonSyncLoopNotSeen, nil,
		},
		"a sync loop that has failed is not seen any more": {
			observation{plain: ok, secure: denied, unit: running}, memory{syncLoopFailed: true}, checks.Unknown, ReasonSyncLoopNotSeen, nil,
		},

		// Restarts.
		"as many restarts as are accepted": {
			observation{plain: ok, secure: ok, unit: running}, restarted(2), checks.False, ReasonHealthy, nil,
		},
		"one restart more": {
			observation{plain: ok, secure: ok, unit: running}, restarted(3),
			checks.True, ReasonRestarting, []string{"kubelet.service", "3 times within 10m0s", "accepted: 2", "200 ok"},
		},
		"restarts keep their reason while nobody listens": {
			observation{plain: refused, secure: refused, unit: running}, restarted(3), checks.True, ReasonRestarting, nil,
		},
		"restarts that can't be seen any more": {
			observation{plain: ok, secure: ok, unitErr: noBus}, restarted(3), checks.Unknown, ReasonUnitNotSeen, []string{"D-Bus"},
		},
		"restarts that can't be seen any more while nobody listens": {
			observation{plain: refused, secure: refused, unitErr: noBus}, restarted(3), checks.True, ReasonConnectionRefused, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, judge(tc.seen, tc.memory), tc.status, tc.reason, tc.mentions...)
		})
	}
}

// restarted is the memory of n restarts with 2 accepted.
func restarted(n int) memory {
	return memory{maxRestarts: 2, restarts: restarts{window: window, limit: 3, times: make([]time.Time, n)}}
}

func TestTheSyncLoopIsRememberedUntilItIsSeenAgain(t *testing.T) {
	var m memory
	for i, step := range []struct {
		secure answer
		want   bool
	}{
		{failed(kubeletapi.ErrNoAccess), false},
		{notOK("syncloop"), true},
		{failed(kubeletapi.ErrNoAccess), true},
		{answered(503, "overloaded"), true},
		{notOK("log"), false},
		{notOK("syncloop"), true},
		{answered(200, "ok"), false},
	} {
		m.learn(observation{secure: step.secure, unitErr: errors.New("no D-Bus")}, time.Time{})
		if m.syncLoopFailed != step.want {
			t.Errorf("step %d: got %v", i, m.syncLoopFailed)
		}
	}
}

func TestALongAnswerIsCut(t *testing.T) {
	text := answered(500, strings.Repeat("x\n", 1000)).String()
	if len(text) > 300 || strings.Contains(text, "\n") || !strings.HasSuffix(text, "...") {
		t.Errorf("got %q", text)
	}
}
