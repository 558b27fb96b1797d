// Package monitortest runs monitors for their tests.
package monitortest

import (
	"context"
	"testing"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks"
)

// Life is that of one monitor.
type Life struct {
	// Logger is the monitor's; by default nothing is logged.
	Logger klog.Logger

	cancel context.CancelFunc
	ended  chan struct{}
}

// Start runs a monitor until Stop, or until the test ends. What it reports waits until it
// is received; the channel is closed when it has ended.
func (l *Life) Start(t testing.TB, run func(context.Context, checks.Send) error) <-chan *checks.Report {
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), l.Logger))
	reports, ended := make(chan *checks.Report), make(chan struct{})
	l.cancel, l.ended = cancel, ended
	go func() {
		defer close(ended)
		defer close(reports)
		err := run(ctx, func(report *checks.Report) bool {
			select {
			case reports <- report:
				return true
			case <-ctx.Done():
				return false
			}
		})
		if err != nil {
			t.Errorf("the monitor could not begin: %v", err)
		}
	}()
	return reports
}

// Stop ends the monitor and waits for that. It may be called again, and before Start.
func (l *Life) Stop() {
	if l.cancel != nil {
		l.cancel()
		<-l.ended
	}
}
