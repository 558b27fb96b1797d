package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	client "github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/leftovers"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/relay"
)

// ErrUnavailable is wrapped by Start's error where no node can run at all, for lack of
// rights or programs. The text says what is missing.
var ErrUnavailable = errors.New("no node can run here")

const (
	pollInterval = 100 * time.Millisecond
	// tailBytes and tailLines are how much of the logs a failed start shows.
	tailBytes = 4 << 10
	tailLines = 40
)

// Options of a node.
type Options struct {
	// Cluster that the node registers with. Pods need one with a controller manager.
	// Required.
	Cluster *cluster.Cluster
	// Name of the node. Required.
	Name string
	// Images are the paths of archives, of OCI's or Docker's format, whose images pods
	// are to use, besides BusyboxImage. Nothing can be pulled.
	Images []string
	// Log is told in a line about each part that is up. Nil tells nobody.
	Log io.Writer
}

// Node is a running node. It may be used by several goroutines.
type Node struct {
	// Name of the node.
	Name string

	options Options
	began   time.Time
	dir     string
	groups  []group
	init    *process.Process
	sysrq   *pipe
	relays  []*relay.Relay
}

// Start starts a node and returns when it is Ready, or ctx ends. Where that can't work
// the error wraps ErrUnavailable. Stop it.
func Start(ctx context.Context, options Options) (*Node, error) {
	if err := obstacle(); err != nil {
		return nil, err
	}
	if options.Log == nil {
		options.Log = io.Discard
	}
	n := &Node{Name: options.Name, options: options, began: time.Now()}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting node %s: %w", n.Name, err), n.Stop())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	if err := n.prepare(ctx); err != nil {
		return err
	}
	log, err := os.Create(n.path("init.log"))
	if err != nil {
		return err
	}
	if n.init, err = startInit(n.dir, n.groups, log); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		wait func(context.Context) error
	}{
		{"systemd and containerd", n.waitBooted},
		{"the way to the API server", n.forwardAPIServer},
		{"the images", n.importImages},
		{"the kubelet", n.startKubelet},
		{"the node", n.waitReady},
	} {
		if err := part.wait(ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", part.name, err), n.lastWords(context.WithoutCancel(ctx)))
		}
		_, _ = fmt.Fprintf(n.options.Log, "%s: %s up after %s\n", n.Name, part.name, time.Since(n.began).Round(time.Millisecond))
	}
	return nil
}

// prepare makes all that is outside of the node.
func (n *Node) prepare(ctx context.Context) (err error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	removeLeftovers(mounts)
	if n.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-*", dirPrefix, os.Getpid())); err != nil {
		return err
	}
	for _, dir := range []string{"root", "run", "containerd", "kubelet", "log", "files"} {
		if err := os.Mkdir(n.path(dir), 0o755); err != nil {
			return err
		}
	}
	if n.groups, err = makeGroups(mounts, filepath.Base(n.dir)); err != nil {
		return err
	}
	if n.sysrq, err = openPipe(n.path("sysrq")); err != nil {
		return err
	}
	return n.writeFiles(ctx)
}

// waitBooted waits until systemd says on the bus that all of the node's target runs.
func (n *Node) waitBooted(ctx context.Context) error {
	return n.poll(ctx, func(ctx context.Context) error {
		conn, err := client.Dialer{Bus: n.Bus()}.Dial(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		state, err := conn.GetUnitPropertyContext(ctx, "node.target", "ActiveState")
		if err == nil && state.Value.Value() != "active" {
			err = fmt.Errorf("node.target is %s", state.Value)
		}
		return err
	})
}

func (n *Node) startKubelet(ctx context.Context) error {
	_, err := n.Exec(ctx, "systemctl", "start", "kubelet.service")
	return err
}

// waitReady waits until the API server says that the node is Ready.
func (n *Node) waitReady(ctx context.Context) error {
	api, err := kubernetes.NewForConfig(n.options.Cluster.Config)
	if err != nil {
		return err
	}
	return n.poll(ctx, func(ctx context.Context) error {
		node, err := api.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is not Ready: %v", node.Status.Conditions)
	})
}

// poll waits until done returns nil. It gives up when ctx ends or the node has died.
func (n *Node) poll(ctx context.Context, done func(context.Context) error) error {
	last := errors.New("it was not asked yet")
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if n.init.HasExited() {
			return false, errors.Join(errors.New("systemd has exited"), n.init.Err)
		}
		last = done(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// Stop kills all that runs inside and removes what there is of it. The API server's
// Node object stays. To call it again does nothing.
func (n *Node) Stop() error {
	for _, r := range n.relays {
		r.Stop()
	}
	n.relays = nil
	if n.init != nil {
		n.kill()
	}
	var errs []error
	if n.sysrq != nil {
		errs = append(errs, n.sysrq.close())
	}
	for _, g := range n.groups {
		errs = append(errs, leftovers.RemoveCgroup(g.dir))
	}
	if n.dir != "" {
		errs = append(errs, os.RemoveAll(n.dir))
	}
	return errors.Join(errs...)
}

func (n *Node) path(name string) string { return filepath.Join(n.dir, name) }
