//go:build e2e

package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/test/e2e/report"
	"github.com/nodemend/nodemend/test/node"
)

// shared is what the tests have in common. It is a package variable since TestMain can
// hand nothing to tests.
var shared struct {
	sync.Mutex
	dir    string // of all logs
	place  *place
	err    error
	report report.Report
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

// run runs the tests and prints the report. The first test that asks for it starts what
// they share.
func run(m *testing.M) int {
	status := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.place != nil {
		if err := shared.place.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the nodes and the control plane:", err)
			status = max(status, 1)
		}
	}
	fmt.Print(shared.report.String())
	switch {
	case status != 0 && shared.dir != "":
		fmt.Println("the logs of all parts are in", shared.dir)
	case shared.dir != "":
		_ = os.RemoveAll(shared.dir) // it is in /tmp
	}
	return status
}

// sharedPlace returns what all tests share, with Nodemend installed, or skips the test
// where no node can run.
func sharedPlace(t *testing.T) *place {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	// It outlives this test, whose context must not end its start.
	ctx := context.WithoutCancel(t.Context())
	if shared.place == nil && shared.err == nil {
		shared.place, shared.err = firstPlace(ctx)
	}
	if errors.Is(shared.err, node.ErrUnavailable) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal("starting the control plane and the nodes: ", shared.err)
	}
	if !shared.place.installed {
		if err := shared.place.install(ctx); err != nil {
			t.Fatal("installing Nodemend: ", err)
		}
	}
	return shared.place
}

func firstPlace(ctx context.Context) (*place, error) {
	var err error
	if shared.dir, err = os.MkdirTemp("", "e2e-node-"); err != nil {
		return nil, err
	}
	fmt.Println("logs and kubeconfig are in", shared.dir)
	p, err := startPlace(ctx, shared.dir)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}
