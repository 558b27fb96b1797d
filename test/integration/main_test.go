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
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
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
	// Tests that are parallel wait much more than they compute.
	if err := flag.Set("test.parallel", "12"); err != nil {
		logger.Error(err, "running the tests one by one")
	}
	os.Exit(systemdtest.Run(tests{m}))
}

// tests are those of the package, with the control plane that they share.
type tests struct{ m *testing.M }

// Run runs the tests and returns their exit status.
func (t tests) Run() int { return clustertest.Run(t.m, cluster.Options{CRDs: deploy.CRDs}) }
