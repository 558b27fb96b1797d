// Command prebuilt downloads the programs of a Kubernetes control plane, which
// takes less time than to build them:
//
//	prebuilt --kubernetes v1.37.1 --dir bin/prebuilt etcd kube-apiserver kubelet
//
// etcd, kube-apiserver and kubectl come from the archives of setup-envtest's
// index, the others from the downloads of the Kubernetes release. No program is
// put into the directory before its checksum is verified. The exit status is 1
// when a program can't be had; test/controlplane/build then builds all of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const (
	// silence is how long a server may send nothing.
	silence = 10 * time.Second

	// total is how long all of it may take: half of what a build takes.
	total = 5 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := execute(ctx, os.Args[1:], source{client: http.DefaultClient, silence: silence})
	stop()
	os.Exit(status)
}

// execute returns the exit status.
func execute(ctx context.Context, args []string, from source) int {
	if err := run(ctx, args, from); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane: not downloaded:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, from source) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, total, fmt.Errorf("not done within %s", total))
	defer cancel()

	r := request{platform: runtime.GOOS + "/" + runtime.GOARCH, log: os.Stdout}
	flags := flag.NewFlagSet("prebuilt", flag.ContinueOnError)
	flags.StringVar(&r.kubernetes, "kubernetes", "", "the Kubernetes release, such as v1.37.1; any patch of it will do")
	flags.StringVar(&r.dir, "dir", "", "where the programs are put")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.programs = flags.Args()
	if r.kubernetes == "" || r.dir == "" || len(r.programs) == 0 {
		return errors.New("--kubernetes, --dir and the names of programs are required")
	}
	if from.mirror, err = parseMirror(os.Getenv(mirrorEnv)); err != nil {
		return err
	}
	return r.fetch(ctx, from)
}
