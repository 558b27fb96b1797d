// Package kwok is kwok with its default stages, one of the programs of the
// control plane. Package cmd below makes it a program of its own, for where the
// others are downloaded.
package kwok

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// Run is kwok's own main with its default stages for nodes and pods, which
// upstream ships beside the binary; a --config of the caller's replaces them.
// It returns the exit status.
func Run() int {
	// Other programs linked in have left their flags here, among them some that
	// kwok defines as well.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)

	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "--config") }) {
		stages, err := pipe(strings.Join([]string{
			nodefast.DefaultNodeInit,
			nodeheartbeat.DefaultNodeHeartbeatWithLease,
			podfast.DefaultPodReady,
			podfast.DefaultPodComplete,
			podfast.DefaultPodDelete,
		}, "\n---\n"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "kwok: handing over the default stages:", err)
			return 1
		}
		os.Stdin = stages
		os.Args = append(os.Args, "--config=-")
	}

	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}

// pipe returns a file from which text can be read once.
func pipe(text string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer w.Close()
		io.WriteString(w, text) //nolint:errcheck // a reader that went away is its own error
	}()
	return r, nil
}
