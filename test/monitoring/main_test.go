//go:build integration

package monitoring

import (
	"os"
	"testing"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs, Kwok: true}))
}
