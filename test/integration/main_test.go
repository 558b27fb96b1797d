//go:build integration

// Package integration tests the roles together, against a real API server.
package integration

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The roles log as in production, which helps when a test fails; the
	// figures of a benchmark would drown in it.
	logger := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	if flag.Lookup("test.bench").Value.String() != "" {
		logger = logr.Discard()
	}
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
}
