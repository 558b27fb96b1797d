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
// Such tests carry the build tag "integration", since they need the programs
// that "make controlplane" downloads or builds.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/nodemend/nodemend/test/cluster"
)

// shared is the cluster of this test binary. It is a package variable since
// TestMain can hand nothing to tests.
var shared struct {
	sync.Mutex
	options *cluster.Options // nil outside Run
	cluster *cluster.Cluster
	err     error
}

// Run runs the tests and returns their exit status for os.Exit. The cluster is
// started by the first test that asks for it, so that a run without such a test
// costs nothing, and stopped after the last; a program of it that did not
// survive the tests makes them fail.
func Run(m *testing.M, options cluster.Options) int {
	shared.Lock()
	shared.options = &options
	shared.Unlock()

	status := m.Run()

	shared.Lock()
	defer shared.Unlock()
	shared.options = nil
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
// fails at once if the cluster does not start or if TestMain does not call Run.
// Objects that a test makes are there for the tests after it, so give them names
// of their own.
func Shared(t testing.TB) *cluster.Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.options == nil {
		t.Fatal("clustertest.Shared needs a TestMain that calls clustertest.Run")
	}
	if shared.cluster == nil && shared.err == nil {
		// It outlives this test, whose context must not end its start.
		shared.cluster, shared.err = cluster.Start(context.WithoutCancel(t.Context()), *shared.options)
	}
	if shared.err != nil {
		t.Fatal("starting the shared cluster: ", shared.err)
	}
	return shared.cluster
}
