package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/test/loopback"
)

// startTimeout is how long the whole of Start may take. It needs about five
// seconds on two idle cores.
const startTimeout = 3 * time.Minute

// Options says what Start starts. The zero value is an API server without our
// kinds, in a directory of its own.
type Options struct {
	// Dir holds the data, the credentials and a log file for each program,
	// <name>.log. It is made when missing and never removed. Empty means
	// a temporary directory that Stop removes.
	Dir string

	// CRDs are installed from every *.yaml file in it, and served when Start
	// returns; usually deploy.CRDs. Nil installs none.
	CRDs fs.FS

	// ControllerManager adds kube-controller-manager: Deployments get pods,
	// nodes that are gone get tainted, owned objects are collected.
	ControllerManager bool

	// Scheduler adds kube-scheduler.
	Scheduler bool

	// Kwok adds kwok, which plays the kubelet for the nodes made by AddNodes
	// and for the pods on them. It leaves other nodes alone.
	Kwok bool

	// ExtraArgs are flags for a program, by its name, that override the ones
	// chosen here, such as
	// {"kube-controller-manager": {"--node-monitor-grace-period=20s"}}.
	ExtraArgs map[string][]string

	// Log is told in a line about each program that is ready. Nil tells nobody.
	Log io.Writer
}

// Cluster is a running control plane. Its methods may be called concurrently,
// except for Stop.
type Cluster struct {
	// Config is an administrator's, without a client-side rate limit. Copy it
	// before changing it.
	Config *rest.Config

	// Kubeconfig is the path of a file with the same credentials.
	Kubeconfig string

	// Dir is the directory described at Options.Dir.
	Dir string

	// Etcd is the URL at which the API server's etcd answers, to whoever asks: for what
	// would take too long to write through the API server. Empty if others have started it.
	Etcd string

	options     Options
	client      kubernetes.Interface
	credentials credentials
	removeDir   bool
	ports       []loopback.Held
	processes   []*child // in the order of their start
	kubelets    *kubelets

	apiServerFlags []string
}

// Start starts a control plane and returns when it serves requests, the CRDs
// among them, and when pods can be created in the default namespace. ctx
// bounds the start, not the life of the cluster. When it fails, nothing is left
// running and the error holds the end of the failing program's log.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not done within %s", startTimeout))
	defer cancel()

	if options.Log == nil {
		options.Log = io.Discard
	}
	c := &Cluster{options: options}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.Stop() // it would only repeat why the start failed
		}
	}()

	if c.credentials, err = newCredentials(c.Dir); err != nil {
		return nil, err
	}
	if err := c.startServers(ctx); err != nil {
		return nil, err
	}
	if err := installCRDs(ctx, c.Config, options.CRDs); err != nil {
		return nil, err
	}
	if err := c.startControllers(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Stop stops all programs, the last started first, and removes the directory
// if Start made it. A program that had exited by itself, or that had to be
// killed, is an error; everything is stopped nevertheless. A second call does
// nothing.
func (c *Cluster) Stop() error {
	var errs []error
	for len(c.processes) > 0 {
		last := len(c.processes) - 1
		errs = append(errs, c.processes[last].stop())
		c.processes = c.processes[:last]
	}
	if c.kubelets != nil {
		c.kubelets.Stop()
	}
	for _, port := range c.ports {
		errs = append(errs, port.Release())
	}
	c.ports = nil
	if c.removeDir {
		errs = append(errs, os.RemoveAll(c.Dir))
	}
	return errors.Join(errs...)
}

// UserConfig returns a Config that acts as the named user in these groups, by
// impersonation; system:authenticated is added by the API server. For a service
// account pass system:serviceaccount:<namespace>:<name> and no groups. Claims
// of a token, such as the node it is bound to, go into its Impersonate.Extra.
func (c *Cluster) UserConfig(name string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

func (c *Cluster) makeDir() (err error) {
	if c.options.Dir == "" {
		c.removeDir = true
		c.Dir, err = os.MkdirTemp("", "nodemend-cluster-")
	} else if c.Dir, err = filepath.Abs(c.options.Dir); err == nil {
		err = os.MkdirAll(c.Dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("making the directory of the cluster: %w", err)
	}
	return nil
}
