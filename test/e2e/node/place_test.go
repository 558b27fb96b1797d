//go:build e2e

package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/node"
)

const (
	// startTime is how long all that is shared may take to start; half a minute is usual.
	startTime = 5 * time.Minute
	// neighbours are nodes that are only played: with them a single sick node is a
	// small part of the cluster.
	neighbours = 4
)

// place is a control plane with real nodes, and Nodemend if it is installed.
type place struct {
	client.Client
	built
	dir       string
	cluster   *cluster.Cluster
	nodes     []*node.Node
	manifests string // what is installed, a file
	installed bool
}

// startPlace starts all but Nodemend, with real nodes of these names. What has been
// started is left to stop if it fails.
func startPlace(ctx context.Context, dir string, b built, nodes ...string) (_ *place, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p := &place{built: b, dir: dir}
	p.cluster, err = cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), ControllerManager: true, Scheduler: true, Kwok: true, Log: os.Stdout,
	})
	if err != nil {
		return p, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return p, err
	}
	if p.Client, err = client.New(p.cluster.Config, client.Options{Scheme: scheme}); err != nil {
		return p, err
	}
	// Without the label kubernetes.io/os=linux nothing of Nodemend is played on them.
	if _, err := p.cluster.AddNodes(ctx, neighbours, "neighbour", nil); err != nil {
		return p, err
	}
	for _, name := range nodes {
		n, err := node.Start(ctx, node.Options{Cluster: p.cluster, Name: name, Images: []string{p.archive}, Log: os.Stdout})
		if err != nil {
			return p, err
		}
		p.nodes = append(p.nodes, n)
		if err := p.prepare(ctx, n); err != nil {
			return p, err
		}
	}
	_, err = p.kubectl(ctx, "apply", "-f", p.file("workload.yaml", workload))
	return p, err
}

// workload is what nobody may notice a repair by: a pod on each real node, with a
// server that is probed all the time.
const workload = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: workload, namespace: default}
spec:
  selector: {matchLabels: {app: workload}}
  template:
    metadata: {labels: {app: workload}}
    spec:
      nodeSelector: {kubernetes.io/os: linux}
      terminationGracePeriodSeconds: 0
      containers:
      - name: server
        image: ` + node.BusyboxImage + `
        command: [sh, -c, "echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
        livenessProbe: {httpGet: {port: 8080, path: /index.html}, periodSeconds: 2, timeoutSeconds: 5}
`

// prepare puts files on a node that its people could have put there: configurations of
// node-problem-detector, which docs/install.md says where to have.
func (p *place) prepare(ctx context.Context, n *node.Node) error {
	script := "mkdir -p /etc/nodemend /var/log/storm\ncp /bin/busybox /etc/nodemend/busybox\n: >" + stormLog + "\n"
	for name, content := range map[string]string{"fault.json": faultMonitor, "storm.json": stormMonitor} {
		script += fmt.Sprintf("cat >/etc/nodemend/%s <<'END'\n%s\nEND\n", name, content)
	}
	_, err := n.Exec(ctx, "sh", "-ec", script)
	return err
}

// file writes a file and returns its path. Its name is in the error of whoever can't
// read it.
func (p *place) file(name, content string) string {
	path := filepath.Join(p.dir, name)
	_ = os.WriteFile(path, []byte(content), 0o600)
	return path
}

func (p *place) kubectl(ctx context.Context, arguments ...string) (string, error) {
	return p.cluster.Kubectl(ctx, arguments...)
}

// kubectlNodemend runs the plugin.
func (p *place) kubectlNodemend(ctx context.Context, arguments ...string) (string, error) {
	return command(ctx, p.plugin, append(arguments, "--kubeconfig="+p.cluster.Kubeconfig)...)
}

// command runs a program at the top of the repository and returns all that it prints.
func command(ctx context.Context, program string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(arguments, " "), err, out)
	}
	return string(out), nil
}

func (p *place) stop() error {
	var errs []error
	for _, n := range p.nodes {
		errs = append(errs, n.Stop())
	}
	if p.cluster != nil {
		errs = append(errs, p.cluster.Stop())
	}
	return errors.Join(errs...)
}
