//go:build e2e

package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	root      = "../../.."
	namespace = "nodemend-system"
	image     = "ghcr.io/nodemend/nodemend"
	version   = "v0.0.0-e2e"
	// nextVersion is the same image under another name, for upgrades.
	nextVersion = "v0.0.1-e2e"
	// rolloutTime is how long pods may take to be replaced; twelve seconds are usual.
	rolloutTime = "300s"
)

// built is what all places need of this repository.
type built struct {
	archive string // of the image, for this machine
	plugin  string // the program kubectl-nodemend
}

func build(ctx context.Context, dir string) (built, error) {
	b := built{archive: filepath.Join(dir, "nodemend-"+version+"-image.tar"), plugin: filepath.Join(dir, "kubectl-nodemend")}
	if _, err := command(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.plugin, "./cmd/kubectl-nodemend"); err != nil {
		return built{}, err
	}
	if _, err := command(ctx, "env", "VERSION="+version, "IMAGE="+image, "ARCHS="+runtime.GOARCH, "DIST="+dir, "tools/release/build", "image"); err != nil {
		return built{}, err
	}
	return b, nil
}

// install installs Nodemend as docs/install.md says for clusters without Helm, with the
// configurations of node-problem-detector in the nodes' /etc/nodemend.
func (p *place) install(ctx context.Context) error {
	began := time.Now()
	crds, err := p.helm(ctx, "show", "crds", "deploy/chart")
	if err != nil {
		return err
	}
	if p.manifests, err = p.render(ctx, version); err != nil {
		return err
	}
	if err := p.all(ctx,
		[]string{"apply", "--server-side", "--force-conflicts", "-f", p.file("crds.yaml", crds)},
		[]string{"wait", "--for=condition=Established", "--timeout=300s", "crd/remediationbudgets.nodemend.dev"},
		[]string{"apply", "--server-side", "-f", p.manifests},
	); err != nil {
		return err
	}
	p.installed = true
	if err := p.rolledOut(ctx); err != nil {
		return err
	}
	fmt.Printf("Nodemend is up on all nodes after %s\n", time.Since(began).Round(time.Millisecond))
	return nil
}

// render writes the manifests with the image of this tag to a file, and returns its path.
// Detectors log each line of a log that they know.
func (p *place) render(ctx context.Context, tag string) (string, error) {
	manifests, err := p.helm(ctx, "template", "nodemend", "deploy/chart", "--namespace", namespace, "--set=createNamespace=true",
		"--set=image.tag="+tag,
		"--set=detector.args={--verbosity=2,--config.custom-plugin-monitor=/etc/nodemend/fault.json,--config.system-log-monitor=/etc/nodemend/storm.json}")
	return p.file("nodemend-"+tag+".yaml", manifests), err
}

func (p *place) helm(ctx context.Context, arguments ...string) (string, error) {
	out, err := command(ctx, "go", append([]string{"tool", "-modfile=tools/release/go.mod", "helm"}, arguments...)...)
	if err != nil {
		return "", fmt.Errorf("helm: %w", err)
	}
	return out, nil
}

func (p *place) all(ctx context.Context, commands ...[]string) error {
	for _, arguments := range commands {
		if _, err := p.kubectl(ctx, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// rolledOut waits until all pods of Nodemend are as its manifests say.
func (p *place) rolledOut(ctx context.Context, workloads ...string) error {
	if len(workloads) == 0 {
		workloads = []string{"daemonset/nodemend-detector", "daemonset/nodemend-runner", "deployment/nodemend-controller"}
	}
	for _, workload := range workloads {
		if _, err := p.kubectl(ctx, "--namespace="+namespace, "rollout", "status", workload, "--timeout="+rolloutTime); err != nil {
			pods, _ := p.kubectl(ctx, "get", "pods", "--all-namespaces", "--output=wide") // only to show it
			return fmt.Errorf("%w\n%s", err, strings.TrimSpace(pods))
		}
	}
	return nil
}
