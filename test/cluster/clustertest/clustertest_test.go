//go:build integration

package clustertest_test

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{}))
}

func TestTestsShareOneClusterThatOutlivesTheFirst(t *testing.T) {
	var first *cluster.Cluster
	t.Run("starting it", func(t *testing.T) { first = clustertest.Shared(t) })
	t.Run("using it", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(clustertest.Shared(t)).To(BeIdenticalTo(first))
		g.Expect(first.Kubeconfig).To(BeARegularFile())
	})
}
