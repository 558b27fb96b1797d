//go:build e2e

package machine

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
)

// shared is what the tests have in common. It is a package variable since TestMain can
// hand nothing to tests.
var shared struct {
	sync.Mutex
	dir   string // of all logs
	plane *plane
	err   error
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

// run runs the tests. The control plane is started by the first test that asks for it.
func run(m *testing.M) int {
	status := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.plane != nil {
		if err := shared.plane.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			status = max(status, 1)
		}
	}
	switch {
	case status != 0 && shared.dir != "":
		fmt.Println("the logs of all parts are in", shared.dir)
	case shared.dir != "":
		_ = os.RemoveAll(shared.dir) // it is in /tmp
	}
	return status
}

// sharedPlane returns the control plane that all tests share, or skips the test.
func sharedPlane(t *testing.T) *plane {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.plane == nil && shared.err == nil {
		// It outlives this test, whose context must not end its start.
		shared.plane, shared.err = firstPlane(context.WithoutCancel(t.Context()))
	}
	if shared.err != nil {
		t.Fatal("starting the control plane: ", shared.err)
	}
	return shared.plane
}

func firstPlane(ctx context.Context) (*plane, error) {
	var err error
	if shared.dir, err = os.MkdirTemp("", "e2e-machine-"); err != nil {
		return nil, err
	}
	fmt.Println("logs and kubeconfig are in", shared.dir)
	p, err := startPlane(ctx, shared.dir)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}
