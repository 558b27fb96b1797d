// Package faults breaks the connection to the API server at a chosen write,
// so that a test can stop a process at every point at which what it knows and
// what is committed may differ.
package faults

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// ErrInjected is in the error of every request that a Transport fails.
var ErrInjected = errors.New("injected fault")

// Mode says on which side of the commit a write fails.
type Mode string

const (
	// Before fails the write without sending it.
	Before Mode = "before"
	// After sends the write, awaits the answer and loses it.
	After Mode = "after"
)

// Transport fails chosen writes to nodemend.dev. Everything else passes. One
// Transport stands for one process: set its fields, then give Wrap to the
// rest.Config of that process alone. Safe for concurrent use; the fields must
// not be changed once it is in use.
type Transport struct {
	// At is the first write that fails, counted from 1. 0: none.
	At int
	// Mode says whether a failing write reaches the API server.
	Mode Mode
	// Times is how many writes in a row fail. 0 counts as 1.
	Times int
	// Dead: the process dies with the first fault. All later requests fail
	// without being sent, reads as well; running watches go on.
	Dead bool
	// OnFault, if set, is called at the first fault, before the failing request
	// returns. It may end the context of the process.
	OnFault func()

	mu     sync.Mutex
	writes int
	faults int
	dead   bool
}

// Wrap returns a RoundTripper that fails the chosen requests and leaves the
// others to next. It fits rest.Config.Wrap, which may call it several times:
// all share one count.
func (t *Transport) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		fail, mode, first := t.judge(req)
		if !fail {
			return next.RoundTrip(req)
		}
		if first && t.OnFault != nil {
			defer t.OnFault()
		}
		if mode == Before {
			if req.Body != nil {
				_ = req.Body.Close() // a RoundTripper must close it
			}
			return nil, ErrInjected
		}
		resp, err := next.RoundTrip(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return nil, errors.Join(ErrInjected, err)
	})
}

// Kill lets all requests from now on fail without being sent. OnFault is not
// called.
func (t *Transport) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = true
}

// Writes returns how many writes to nodemend.dev were tried, failed ones
// included.
func (t *Transport) Writes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

// Faults returns how many writes have failed by At and Times.
func (t *Transport) Faults() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults
}

// judge counts the request and says whether and how it fails, and whether it
// is the first that does.
func (t *Transport) judge(req *http.Request) (fail bool, mode Mode, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	write := isWrite(req)
	if write {
		t.writes++
	}
	if t.dead {
		return true, Before, false
	}
	if !write || t.At == 0 || t.writes < t.At || t.writes >= t.At+max(t.Times, 1) {
		return false, "", false
	}
	t.faults++
	t.dead = t.Dead
	return true, t.Mode, t.faults == 1
}

func isWrite(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return strings.Contains(req.URL.Path, "/apis/nodemend.dev/")
	default:
		return false
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
