//go:build e2e

package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/vm"
)

const (
	namespace = "nodemend-system"
	root      = "../../.."
	// The controller may take this long to end.
	grace = 20 * time.Second
	// silence is how many seconds nothing may be heard of a node until it is no longer
	// Ready.
	silence = 12
	// machines are at most so many at once: one for each scenario.
	machines = 8
	// neighbours are so many that the sample budget takes no machines for a storm, even
	// if none of them is healthy.
	neighbours = 3 * machines
)

// plane is a control plane with Nodemend installed in it, and the controller.
type plane struct {
	client.Client
	dir        string
	cluster    *cluster.Cluster
	controller *process.Process
}

// startPlane installs Nodemend as docs/install.md says, with the sample budget, widened
// for scenarios beside each other, and neighbours. The controller runs here instead of in its pods. What has
// been started is left to stop if it fails.
func startPlane(ctx context.Context, dir string) (*plane, error) {
	p := &plane{dir: dir}
	var err error
	p.cluster, err = cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), ControllerManager: true, Scheduler: true, Kwok: true,
		ExtraArgs: map[string][]string{
			"kube-controller-manager": {fmt.Sprintf("--node-monitor-grace-period=%ds", silence), "--node-monitor-period=1s"},
			"kwok":                    {fmt.Sprintf("--node-lease-duration-seconds=%d", silence)}, // renewed four times in it
		},
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
	for _, arguments := range [][]string{
		{"apply", "--server-side", "-f", root + "/deploy/install.yaml"},
		{"scale", "--replicas=0", "--namespace=" + namespace, "deployment/nodemend-controller"},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd/remediationbudgets.nodemend.dev"},
	} {
		if _, err := p.kubectl(ctx, arguments...); err != nil {
			return p, err
		}
	}
	if err := p.applyBudget(ctx); err != nil {
		return p, err
	}
	if _, err := p.cluster.AddNodes(ctx, neighbours, "neighbour", nil); err != nil {
		return p, err
	}
	err = p.startController(ctx)
	return p, err
}

// applyBudget applies the sample budget with permits for all machines at once, so that
// no scenario waits for another. A machine may be rebooted as often as it breaks in one.
func (p *plane) applyBudget(ctx context.Context) error {
	data, err := deploy.Samples.ReadFile("samples/budget.yaml")
	if err != nil {
		return err
	}
	var budget v1alpha1.RemediationBudget
	if err := yaml.UnmarshalStrict(data, &budget); err != nil {
		return err
	}
	budget.Spec.MaxConcurrent, budget.Spec.MaxUnavailable = new(intstr.FromInt32(machines)), new(intstr.FromInt32(machines))
	budget.Spec.MaxReboots.Count = 3
	return p.Create(ctx, &budget)
}

func (p *plane) startController(ctx context.Context) error {
	program, err := program("nodemend")
	if err != nil {
		return err
	}
	config, err := p.account(ctx, "controller", nil)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(p.dir, "controller.kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.dir, "controller.log"))
	if err != nil {
		return err
	}
	// It is the only one. One that has lost its Lease, to a machine that stood still, ends,
	// and no kubelet starts this one again.
	p.controller, err = process.Start(&exec.Cmd{
		Path: program, Args: []string{program, "controller", "--kubeconfig=" + kubeconfig, "--leader-election=false"},
		Stdout: log, Stderr: log, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}, log)
	return err
}

// program returns the path of one that make build has built.
func program(name string) (string, error) {
	path, err := filepath.Abs(root + "/bin/" + name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("%w: run make build csi", err)
	}
	return path, nil
}

// account returns the config of a role, with a token that is bound to its pod if there
// is one.
func (p *plane) account(ctx context.Context, role string, pod *corev1.Pod) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nodemend-" + role, Namespace: namespace}}
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	if err := p.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("making a token of nodemend-%s: %w", role, err)
	}
	config := rest.AnonymousClientConfig(p.cluster.Config)
	config.BearerToken = request.Status.Token
	return config, nil
}

// server is the URL of the API server as machines see it.
func (p *plane) server() string {
	return strings.Replace(p.cluster.Config.Host, "127.0.0.1", vm.HostAddress, 1)
}

func (p *plane) kubectl(ctx context.Context, arguments ...string) (string, error) {
	return p.cluster.Kubectl(ctx, arguments...)
}

// dump writes what the API server knows of Nodemend.
func (p *plane) dump(ctx context.Context, to io.Writer) error {
	var errs []error
	for _, what := range []string{"nodes,remedypolicies,remediations,nodeactions,nodemaintenances,remediationbudgets", "events"} {
		out, err := p.kubectl(ctx, "get", what, "--output=yaml")
		_, writeErr := io.WriteString(to, out)
		errs = append(errs, err, writeErr)
	}
	return errors.Join(errs...)
}

// stop stops everything. A controller that has ended by itself is an error.
func (p *plane) stop() error {
	var errs []error
	if p.controller != nil {
		if p.controller.HasExited() {
			errs = append(errs, fmt.Errorf("the controller has ended by itself: %w", p.controller.Err))
		} else if _, err := p.controller.StopGroup(grace); err != nil {
			errs = append(errs, err)
		}
	}
	if p.cluster != nil {
		errs = append(errs, p.cluster.Stop())
	}
	return errors.Join(errs...)
}
