// Command demo shows Nodemend healing a node, on one machine and without root:
// a real control plane, twenty nodes that kwok plays, and this machine as one
// more node with the real detector and runner. The container runtime of that
// node is a small CRI server in a process of its own; the demo stops it, and
// tells what happens. Then a fan of the node stops, in a BMC that the demo plays, if
// there is an ipmitool to read it. Then another node does not answer, whose machine and
// BMC the demo plays: the real remote runner fences it, and its pods are freed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodemend/nodemend/test/criserver"
)

func main() {
	// A terminal that is closed ends the demo as Ctrl-C does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// So does a pager that has ended: the write fails then, instead of ending the demo at once.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log.SetLogger(logr.Discard()) // of the libraries that ask the API server
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	d := demo{screen: newScreen(gone)}
	criSocket := ""
	flag.StringVar(&d.bin, "programs", "bin", "the directory of nodemend, nodemend-agent and kubectl-nodemend")
	flag.BoolVar(&d.keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	flag.StringVar(&criSocket, "cri-server", "", "only serve CRI on this socket (the demo starts itself that way)")
	flag.Parse()
	if criSocket != "" {
		return serveCRI(ctx, criSocket)
	}
	return d.run(ctx)
}

func serveCRI(ctx context.Context, socket string) error {
	server, err := criserver.Start(ctx, socket, criserver.Options{})
	if err != nil {
		return err
	}
	defer server.Stop()
	<-ctx.Done()
	return nil
}
