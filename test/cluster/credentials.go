package cluster

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The users that authenticate with a token, named as the roles expect that
// Kubernetes itself installs.
const (
	adminUser             = "admin"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
)

// administrators is the group that may do everything.
const administrators = "system:masters"

// credentials are the files that the programs share, and what is in them.
type credentials struct {
	// certFile and keyFile serve on 127.0.0.1, on the cluster IP, and to virtual machines;
	// ca verifies them and is the content of certFile, too.
	certFile, keyFile string
	ca                []byte

	// serviceAccountKeyFile signs and verifies service account tokens.
	serviceAccountKeyFile string

	// By these the API server authenticates with kubelets.
	kubeletClientCertFile, kubeletClientKeyFile string

	// tokenFile is what the API server knows of tokens, which are by user.
	tokenFile string
	tokens    map[string]string
}

func newCredentials(dir string) (credentials, error) {
	c := credentials{
		certFile:              filepath.Join(dir, "tls.crt"),
		keyFile:               filepath.Join(dir, "tls.key"),
		serviceAccountKeyFile: filepath.Join(dir, "service-account.key"),
		kubeletClientCertFile: filepath.Join(dir, "kubelet-client.crt"),
		kubeletClientKeyFile:  filepath.Join(dir, "kubelet-client.key"),
		tokenFile:             filepath.Join(dir, "tokens.csv"),
		tokens: map[string]string{
			adminUser:             rand.Text(),
			controllerManagerUser: rand.Text(),
			schedulerUser:         rand.Text(),
		},
	}

	// Pods find the API server at the first address of the range of service IPs, virtual
	// machines this machine's loopback interface at the last one.
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 2, 2)}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", addresses, nil)
	if err != nil {
		return credentials{}, fmt.Errorf("making the serving certificate: %w", err)
	}
	c.ca = cert
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return credentials{}, fmt.Errorf("making the service account key: %w", err)
	}
	kubeletClientCert, kubeletClientKey, err := kubeletClientCert()
	if err != nil {
		return credentials{}, fmt.Errorf("making the certificate for kubelets: %w", err)
	}
	var tokens strings.Builder
	for user, token := range c.tokens {
		groups := ""
		if user == adminUser {
			groups = "," + administrators
		}
		fmt.Fprintf(&tokens, "%s,%s,%s%s\n", token, user, user, groups)
	}

	for path, data := range map[string][]byte{
		c.certFile:              cert,
		c.keyFile:               key,
		c.serviceAccountKeyFile: serviceAccountKey,
		c.kubeletClientCertFile: kubeletClientCert,
		c.kubeletClientKeyFile:  kubeletClientKey,
		c.tokenFile:             []byte(tokens.String()),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return credentials{}, fmt.Errorf("writing the cluster's credentials: %w", err)
		}
	}
	return c, nil
}
