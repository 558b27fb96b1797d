// Command kubectl-nodemend is the kubectl plugin for the people who run a cluster
// with Nodemend: it shows what is being done about which node and why not, and is
// how they say yes, no, and not now.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

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
		_, _ = fmt.Fprintln(os.Stderr, "error:", visible(err.Error())) // there is no other place to tell
		os.Exit(1)
	}
}
