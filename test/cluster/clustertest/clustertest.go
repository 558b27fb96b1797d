// Package clustertest lets the tests of a package share one control plane:
//
//	func TestMain(m *testing.M) {
//		os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
//	}
//
//	func TestSomething(t *testing.T) {
//		c := clustertest.Shared(t)
//		…
//	}
//
// With RunTogether in place of Run, packages share one, too, when "make test" runs them.
//
// Such tests carry the build tag "integration", since they need the programs
// that "make controlplane" downloads or builds.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
)

// Env names the environment variable with the kubeconfig of the control plane that
// the packages of a run share. Where it is not set, each has its own.
const Env = "NODEMEND_TEST_CLUSTER"

// Together are the options of the control plane that packages share.
func Together() cluster.Options { return cluster.Options{CRDs: deploy.CRDs} }

// shared is the cluster of this test binary. It is a package variable since
// TestMain can hand nothing to tests.
var shared struct {
	sync.Mutex
	start   func(context.Context) (*cluster.Cluster, error) // nil outside Run
	cluster *cluster.Cluster
	err     error
}

// Run runs the tests and returns their exit status for os.Exit. The cluster is
// started by the first test that asks for it, so that a run without such a test
// costs nothing, and stopped after the last; a program of it that did not
// survive the tests makes them fail.
func Run(m *testing.M, options cluster.Options) int {
	return run(m, func(ctx context.Context) (*cluster.Cluster, error) { return cluster.Start(ctx, options) })
}

// RunTogether is Run with a control plane that other packages may be using at the same
// time. It has our CRDs and no controllers. That is for tests which neither start a
// controller nor mind what others create: their objects have names of their own, and
// they list and watch by a selector or by name.
func RunTogether(m *testing.M) int {
	kubeconfig := os.Getenv(Env)
	if kubeconfig == "" {
		return Run(m, Together())
	}
	return run(m, func(context.Context) (*cluster.Cluster, error) { return cluster.Connect(kubeconfig) })
}

func run(m *testing.M, start func(context.Context) (*cluster.Cluster, error)) int {
	shared.Lock()
	shared.start = start
	shared.Unlock()

	status := m.Run()

	shared.Lock()
	defer shared.Unlock()
	shared.start = nil
	if shared.cluster == nil {
		return status
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the shared cluster:", err)
		return max(status, 1)
	}
	return status
}

// Shared returns the cluster that the tests of this package share. The test
// fails at once if the cluster does not start or if TestMain calls neither Run nor RunTogether.
// Objects that a test makes are there for the tests after it, so give them names
// of their own.
func Shared(t testing.TB) *cluster.Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.start == nil {
		t.Fatal("clustertest.Shared needs a TestMain that calls clustertest.Run")
	}
	if shared.cluster == nil && shared.err == nil {
		// It outlives this test, whose context must not end its start.
		shared.cluster, shared.err = shared.start(context.WithoutCancel(t.Context()))
	}
	if shared.err != nil {
		t.Fatal("starting the shared cluster: ", shared.err)
	}
	return shared.cluster
}
