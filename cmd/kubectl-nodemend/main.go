// Command kubectl-nodemend is the kubectl plugin for the people who run a cluster
// with Nodemend: it shows what is being done about which node and why not, and is
// how they say yes, no, and not now.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/internal/fold"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// version is set by the linker to the release that was built.
var version = "development"

func main() {
	klog.SetLogger(klog.Background().V(99)) // what libraries have to say is no answer to what was asked
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := newRootCommand(streams, serverclock.New(clock.RealClock{})).ExecuteContext(ctx)
	stop()
	if err != nil {
		if text := err.Error(); text != "" {
			_, _ = fmt.Fprintln(os.Stderr, fold.Lines("error: "+visible(text), fold.Width(os.Stderr))) // there is no other place to tell
		}
		os.Exit(exitStatus(err))
	}
}

// statusError is an error with an exit status. Without cause everything is said already.
type statusError struct {
	status int
	cause  error
}

func (e statusError) Error() string {
	if e.cause == nil {
		return ""
	}
	return e.cause.Error()
}

// Unwrap returns the cause.
func (e statusError) Unwrap() error { return e.cause }

// exitStatus is the exit status of an error.
func exitStatus(err error) int {
	var of statusError
	if errors.As(err, &of) {
		return of.status
	}
	return 1
}
