//go:build integration

// Package perf measures the controller at fleets of 100, 1,000 and 5,000 nodes, of a
// realistic size and with heartbeats. It runs the program itself, as a process beside
// a real API server, and prints what docs/performance.md tells:
//
//	make bench BENCH=Fleet PKG=./test/perf
//
// and the remote runner, beside 5,000 nodes with a BMC each:
//
//	make bench BENCH=Fences BENCHTIME=1x PKG=./test/perf
package perf

import (
	"os"
	"testing"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
}
