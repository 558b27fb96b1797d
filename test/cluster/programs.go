package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/test/loopback"
)

// kwokSelector selects, by annotation, the nodes that kwok plays.
const kwokSelector = "kwok.x-k8s.io/node=fake"

// startServers starts etcd and kube-apiserver and connects to it.
func (c *Cluster) startServers(ctx context.Context) error {
	etcdPort, err := c.reservePort()
	if err != nil {
		return err
	}
	etcdURL := loopbackURL("http", etcdPort)
	c.Etcd = etcdURL
	etcd, err := c.start("etcd",
		"--data-dir="+filepath.Join(c.Dir, "etcd"),
		"--unsafe-no-fsync=true",
		"--socket-reuse-port=true",
		"--listen-client-urls="+etcdURL,
		"--advertise-client-urls="+etcdURL,
		"--listen-peer-urls=http://127.0.0.1:0", // it has no peers
		"--log-level=warn",
	)
	if err != nil {
		return err
	}
	if err := c.waitReady(ctx, etcd, urlOK(http.DefaultClient, etcdURL+"/health")); err != nil {
		return err
	}

	apiPort, err := c.reservePort()
	if err != nil {
		return err
	}
	if err := c.connect(apiPort); err != nil {
		return err
	}
	if c.kubelets, err = startKubelets(ctx); err != nil {
		return err
	}
	kubeletFlags, err := c.kubeletFlags()
	if err != nil {
		return err
	}
	c.apiServerFlags = append(c.apiServerArgs(etcdURL, apiPort), kubeletFlags...)
	return c.StartAPIServer(ctx)
}

func (c *Cluster) apiServerArgs(etcdURL string, port int) []string {
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--permit-port-sharing=true",
		"--tls-cert-file=" + c.credentials.certFile,
		"--tls-private-key-file=" + c.credentials.keyFile,
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--token-auth-file=" + c.credentials.tokenFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.credentials.serviceAccountKeyFile,
		"--service-account-signing-key-file=" + c.credentials.serviceAccountKeyFile,
	}
	if !c.options.ControllerManager {
		// Only the controller manager makes the service accounts that the one
		// asks for and lifts the taints that the other sets.
		args = append(args, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	return args
}

// startControllers starts the optional programs together, then waits for each.
func (c *Cluster) startControllers(ctx context.Context) error {
	var waits []func() error
	if c.options.ControllerManager {
		flags, healthy, err := c.controllerFlags(controllerManagerUser)
		if err != nil {
			return err
		}
		p, err := c.start("kube-controller-manager", append(flags,
			"--use-service-account-credentials=true",
			"--service-account-private-key-file="+c.credentials.serviceAccountKeyFile,
			"--root-ca-file="+c.credentials.certFile,
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		)...)
		if err != nil {
			return err
		}
		waits = append(waits, func() error { return c.waitReady(ctx, p, healthy, c.defaultServiceAccountExists) })
	}
	if c.options.Scheduler {
		flags, healthy, err := c.controllerFlags(schedulerUser)
		if err != nil {
			return err
		}
		p, err := c.start("kube-scheduler", append(flags, "--kube-api-qps=1000", "--kube-api-burst=2000")...)
		if err != nil {
			return err
		}
		waits = append(waits, func() error { return c.waitReady(ctx, p, healthy) })
	}
	if c.options.Kwok {
		// It has no port to ask whether it is ready; AddNodes sees that.
		if _, err := c.start("kwok",
			"--kubeconfig="+c.Kubeconfig,
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector="+kwokSelector,
			"--node-ip=127.0.0.1",
			"--node-lease-duration-seconds=40",
		); err != nil {
			return err
		}
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

// controllerFlags returns the flags that kube-controller-manager and
// kube-scheduler have in common, and the check of whether it is healthy.
func (c *Cluster) controllerFlags(user string) ([]string, check, error) {
	port, err := c.reservePort()
	if err != nil {
		return nil, nil, err
	}
	config := rest.AnonymousClientConfig(c.Config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	config.BearerToken = c.credentials.tokens[user]
	kubeconfig := filepath.Join(c.Dir, strings.TrimPrefix(user, "system:")+".kubeconfig")
	if err := WriteKubeconfig(kubeconfig, config); err != nil {
		return nil, nil, err
	}
	flags := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--permit-port-sharing=true",
		"--tls-cert-file=" + c.credentials.certFile,
		"--tls-private-key-file=" + c.credentials.keyFile,
	}
	return flags, urlOK(client, loopbackURL("https", port)+"/healthz"), nil
}

// connect sets up the administrator's connection to the API server on port.
func (c *Cluster) connect(port int) (err error) {
	c.Config = &rest.Config{
		Host:            loopbackURL("https", port),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.credentials.ca},
		BearerToken:     c.credentials.tokens[adminUser],
		QPS:             -1, // no limit
	}
	if c.client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	c.Kubeconfig = filepath.Join(c.Dir, "kubeconfig")
	return WriteKubeconfig(c.Kubeconfig, c.Config)
}

func (c *Cluster) start(name string, args ...string) (*child, error) {
	p, err := startProcess(c.Dir, name, slices.Concat(args, c.options.ExtraArgs[name]))
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	return p, nil
}

func (c *Cluster) reservePort() (int, error) {
	port, err := loopback.Hold(unix.SO_REUSEPORT) // which all of them are told to set
	if err != nil {
		return 0, err
	}
	c.ports = append(c.ports, port)
	return port.Port, nil
}

// A check returns nil when what it looks at is as it should be, else why not.
type check func(context.Context) error

func (c *Cluster) waitReady(ctx context.Context, p *child, checks ...check) error {
	for _, check := range checks {
		if err := p.waitReady(ctx, check); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(c.options.Log, "%s is ready after %s\n", p.name, time.Since(p.began).Round(time.Millisecond))
	return nil
}

func (c *Cluster) apiServerReady(ctx context.Context) error {
	if err := c.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

// defaultServiceAccountExists is what creating pods waits for.
func (c *Cluster) defaultServiceAccountExists(ctx context.Context) error {
	_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// urlOK checks that a GET is answered with 200.
func urlOK(client *http.Client, url string) check {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
			return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}

func loopbackURL(scheme string, port int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port)
}
