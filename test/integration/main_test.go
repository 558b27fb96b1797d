//go:build integration

// Package integration tests the roles together, against a real API server.
package integration

import (
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
	// The roles log as in production; it helps when a test fails.
	logger := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
}
