//go:build e2e

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nodemend/nodemend/test/e2e/story"
)

// shared is what the tests have in common. It is a package variable since TestMain can
// hand nothing to tests.
var shared struct {
	story.Suite
	plane *plane
	err   error
}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// sharedPlane returns the control plane that all tests share, or skips the test.
func sharedPlane(t *testing.T) *plane {
	t.Helper()
	shared.Mu.Lock()
	defer shared.Mu.Unlock()
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
	if shared.Dir, err = os.MkdirTemp("", "e2e-machine-"); err != nil {
		return nil, err
	}
	fmt.Println("logs and kubeconfig are in", shared.Dir)
	p, err := startPlane(ctx, shared.Dir)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	shared.Stop = p.stop
	return p, nil
}
