//go:build e2e

package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// shared is what the tests have in common. It is a package variable since TestMain can
// hand nothing to tests.
var shared struct {
	story.Suite
	built built
	place *place // where most scenarios are
	err   error
}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// sharedPlace returns the place of all scenarios that need none of their own, with
// Nodemend installed, or skips the test where no node can run.
func sharedPlace(t *testing.T) *place {
	t.Helper()
	shared.Mu.Lock()
	defer shared.Mu.Unlock()
	if shared.place == nil && shared.err == nil {
		var p *place
		if p, shared.err = newPlace(longer(t), ".", "sick", "well"); shared.err == nil {
			shared.place, shared.Stop = p, p.stop
		}
	}
	installed(t, shared.place, shared.err)
	return shared.place
}

// ownPlace returns a place that ends with the test, with Nodemend installed on these
// nodes, or skips the test where no node can run.
func ownPlace(t *testing.T, nodes ...string) *place {
	t.Helper()
	shared.Mu.Lock()
	defer shared.Mu.Unlock()
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
	if shared.Dir == "" {
		dir, err := os.MkdirTemp("", "e2e-node-")
		if err != nil {
			return nil, err
		}
		fmt.Println("logs and kubeconfigs are in", dir)
		shared.Dir = dir
	}
	if shared.built == (built{}) {
		var err error
		if shared.built, err = build(ctx, shared.Dir); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(shared.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p, err := startPlace(ctx, dir, shared.built, nodes...)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}
