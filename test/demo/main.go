// Command demo shows Nodemend healing a node, on one machine and without root:
// a real control plane, twenty nodes that kwok plays, and this machine as one
// more node with the real detector and runner. The container runtime of that
// node is a small CRI server in a process of its own; the demo stops it, and
// tells what happens. Then a fan of the node stops, in a BMC that the demo plays, if
// there is an ipmitool to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodemend/nodemend/test/criserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var d demo
	criSocket := ""
	flag.StringVar(&d.programs, "programs", "bin", "the directory of nodemend and nodemend-agent")
	flag.BoolVar(&d.keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	flag.StringVar(&criSocket, "cri-server", "", "only serve CRI on this socket (the demo starts itself that way)")
	flag.Parse()
	if criSocket != "" {
		return serveCRI(ctx, criSocket)
	}
	err := d.run(ctx)
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
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
