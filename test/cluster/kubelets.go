package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/nodemend/nodemend/test/relay"
)

// egressConfig has the API server connect to nodes by way of a proxy.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`

// Dial connects to an address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// kubelets is the API server's way to those of real nodes, on which kubectl logs and
// kubectl exec depend: a proxy that knows how to get at each.
type kubelets struct {
	*relay.Relay
	address string

	mu   sync.Mutex
	dial map[string]Dial // by the name of the node
}

// ReachKubelet has the API server connect to the kubelet of a node by dial, which finds
// it at 127.0.0.1. The kubelet has to trust [Cluster.KubeletClientCA].
func (c *Cluster) ReachKubelet(node string, dial Dial) {
	c.kubelets.mu.Lock()
	defer c.kubelets.mu.Unlock()
	c.kubelets.dial[node] = dial
}

// KubeletClientCA returns the path of the certificate by which a kubelet knows the API
// server. Who has it is an administrator.
func (c *Cluster) KubeletClientCA() string { return c.credentials.kubeletClientCertFile }

func startKubelets(ctx context.Context) (*kubelets, error) {
	// Of no file, whose path could be too long for a socket.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", "@nodemend-"+rand.Text())
	if err != nil {
		return nil, err
	}
	k := &kubelets{address: listener.Addr().String(), dial: map[string]Dial{}}
	k.Relay = relay.Start(ctx, listener, k.tunnel)
	return k, nil
}

// tunnel connects a client to what its CONNECT asks for. The API server waits for the
// answer before it says more.
func (k *kubelets) tunnel(ctx context.Context, client net.Conn) (net.Conn, error) {
	request, err := http.ReadRequest(bufio.NewReader(client))
	if err != nil {
		return nil, err
	}
	server, err := k.connect(ctx, request.RequestURI)
	if err != nil {
		// It goes on as the error of kubectl.
		_, writeErr := fmt.Fprintf(client, "HTTP/1.1 502 %s\r\n\r\n", err)
		return nil, errors.Join(err, writeErr)
	}
	if _, err := fmt.Fprint(client, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// connect connects to a kubelet, or to whatever else the API server has to reach: a
// webhook, say.
func (k *kubelets) connect(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	dial, known := k.dial[host]
	k.mu.Unlock()
	if known {
		return dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// kubeletFlags are the API server's.
func (c *Cluster) kubeletFlags() ([]string, error) {
	path := filepath.Join(c.Dir, "egress.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, egressConfig, c.kubelets.address), 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--egress-selector-config-file=" + path,
		"--kubelet-client-certificate=" + c.credentials.kubeletClientCertFile,
		"--kubelet-client-key=" + c.credentials.kubeletClientKeyFile,
	}, nil
}

// kubeletClientCert makes a certificate of an administrator that is its own CA, and its
// key, as PEM.
func kubeletClientCert() (cert, key []byte, err error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	made, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "kube-apiserver-kubelet-client", Organization: []string{administrators}}, private)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: made.Raw}), key, err
}
