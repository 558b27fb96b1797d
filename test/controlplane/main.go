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
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // time zones for CronJobs, as upstream's main packages do

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

	"github.com/nodemend/nodemend/test/controlplane/kwok"
)

// roles maps the name of a program to its main function, which returns the
// exit status.
var roles = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 runKubelet,
	"kubectl":                 runKubectl,
	"kwok":                    kwok.Run,
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
