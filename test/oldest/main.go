// Command oldest is the control plane of the oldest Kubernetes that docs/support.md
// claims: the unmodified upstream programs in one binary, chosen by the base name that it
// is called by. It is a module of its own, as test/controlplane is.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // time zones for CronJobs, as upstream's main packages do

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "oldest: call it by a link named kube-apiserver, kube-controller-manager or kube-scheduler, not %s\n", name)
		os.Exit(2)
	}
}
