//go:build integration

package interop

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	flag.Parse()
	logger := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	// They mostly wait.
	if err := flag.Set("test.parallel", "12"); err != nil {
		logger.Error(err, "running the tests one by one")
	}
	os.Exit(m.Run())
}
