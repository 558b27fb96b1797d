//go:build e2e

package node_test

import (
	"os"
	"testing"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{Dir: os.Getenv(helperEnv), ControllerManager: true, Scheduler: true}))
}
