//go:build e2e

package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/test/node"
)

// shared is what the tests have in common. It is a package variable since TestMain can
// hand nothing to tests.
var shared struct {
	sync.Mutex
	dir   string // of all logs
	built built
	place *place // where most scenarios are
	err   error
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

// run runs the tests. The first test that asks for it starts what
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
	switch {
	case status != 0 && shared.dir != "":
		fmt.Println("the logs of all parts are in", shared.dir)
	case shared.dir != "":
		_ = os.RemoveAll(shared.dir) // it is in /tmp
	}
	return status
}

// sharedPlace returns the place of all scenarios that need none of their own, with
// Nodemend installed, or skips the test where no node can run.
func sharedPlace(t *testing.T) *place {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.place == nil && shared.err == nil {
		var p *place
		if p, shared.err = newPlace(longer(t), ".", "sick", "well"); shared.err == nil {
			shared.place = p
		}
	}
	installed(t, shared.place, shared.err)
	return shared.place
}

// ownPlace returns a place that ends with the test, with Nodemend installed on these
// nodes, or skips the test where no node can run.
func ownPlace(t *testing.T, nodes ...string) *place {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	p, err := newPlace(longer(t), strings.Join(nodes, "-"), nodes...)
	if err == nil {
		t.Cleanup(func() {
			if err := p.stop(); err != nil {
				t.Error("stopping the nodes and the control plane: ", err)
			}
		})
	}
	installed(t, p, err)
	return p
}

// installed installs Nodemend in a place that has been started with this error, if it
// is not installed.
func installed(t *testing.T, p *place, err error) {
	t.Helper()
	if errors.Is(err, node.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal("starting the control plane and the nodes: ", err)
	}
	if !p.installed {
		if err := p.install(longer(t)); err != nil {
			t.Fatal("installing Nodemend: ", err)
		}
	}
}

// longer returns a context for what outlives the test or cleans up after it.
func longer(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// newPlace starts a place with its files in a directory beside those of others. Nothing
// is left running if it fails.
func newPlace(ctx context.Context, name string, nodes ...string) (*place, error) {
	if shared.dir == "" {
		dir, err := os.MkdirTemp("", "e2e-node-")
		if err != nil {
			return nil, err
		}
		fmt.Println("logs and kubeconfigs are in", dir)
		shared.dir = dir
	}
	if shared.built == (built{}) {
		var err error
		if shared.built, err = build(ctx, shared.dir); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(shared.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p, err := startPlace(ctx, dir, shared.built, nodes...)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}
