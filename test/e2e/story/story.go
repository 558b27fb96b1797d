// Package story is what the end-to-end suites have in common: a test that says what it waits
// for and what it has proved, and the directory that keeps the logs of one that has failed.
package story

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Suite is what the stories of a suite share. Its zero value is ready to use.
type Suite struct {
	// Mu is held by who reads or changes the rest.
	Mu sync.Mutex
	// Dir has the logs of all parts; empty until there are any. It is removed unless a
	// test has failed.
	Dir string
	// Stop, if it is not nil, stops what was started for all of them.
	Stop func() error
}

// Run runs the tests, and returns the status to exit with. What they share is started by
// the first that asks for it.
func (s *Suite) Run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	status := m.Run()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Stop != nil {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the nodes and the control plane:", err)
			status = max(status, 1)
		}
	}
	switch {
	case status != 0 && s.Dir != "":
		fmt.Println("the logs of all parts are in", s.Dir)
	case s.Dir != "":
		_ = os.RemoveAll(s.Dir) // it is in /tmp
	}
	return status
}

// Story is a test that says what it has proved.
type Story struct {
	*testing.T
	// Ctx is that of what the story asks for.
	Ctx context.Context
	// Poll is how often Until looks.
	Poll time.Duration
}

// Must ends the test if there is an error.
func (s *Story) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Proved is a line of the report.
func (s *Story) Proved(format string, args ...any) {
	s.Helper()
	s.Attr("proved", strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// Until waits until done returns true, and returns how long it took. What done returns
// besides is shown if it never does.
func (s *Story) Until(limit time.Duration, what string, done func() (bool, string)) time.Duration {
	s.Helper()
	began := time.Now()
	last := "nothing"
	err := wait.PollUntilContextTimeout(s.Ctx, s.Poll, limit, true, func(context.Context) (ok bool, err error) {
		ok, last = done()
		return ok, nil
	})
	took := time.Since(began)
	if err != nil {
		s.Fatalf("waited %.0f s, of at most %.0f, in vain until %s; seen last: %s", took.Seconds(), limit.Seconds(), what, last)
	}
	s.Logf("%5.1f s until %s (at most %.0f s)", took.Seconds(), what, limit.Seconds())
	return took
}
