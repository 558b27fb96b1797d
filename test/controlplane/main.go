// Command controlplane is a whole Kubernetes control plane in one binary, for
// tests and for the demo: the unmodified upstream programs, chosen by the
// base name that the binary is called by, or by its first argument.
//
//	controlplane etcd --data-dir …
//	ln -s controlplane kubectl && ./kubectl get nodes
//
// It is a module of its own: Kubernetes pins its staging modules with replace
// directives, which must not reach the product's go.mod.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // time zones for CronJobs, as upstream's main packages do

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// roles maps the name of a program to its main function, which returns the
// exit status.
var roles = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
}

func main() {
	role := filepath.Base(os.Args[0])
	if roles[role] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		role = os.Args[0]
	}
	run := roles[role]
	if run == nil {
		names := make([]string, 0, len(roles))
		for name := range roles {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "controlplane: unknown program %q; accepted as first argument or as the name of a link: %s\n",
			role, strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
		return 1
	}
	return 0
}

// runKwok is kwok's own main with its default stages for nodes and pods, which
// upstream ships beside the binary; a --config of the caller's replaces them.
func runKwok() int {
	// The other programs linked in have left their flags here, among them
	// some that kwok defines as well.
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
	command := kwok.NewCommand(ctx)
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
