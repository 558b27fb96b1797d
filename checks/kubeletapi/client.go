package kubeletapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// MaxBody is the largest answer that is accepted, in bytes.
	MaxBody = 16 << 20

	// copySize is how much of an answer is read at a time, in bytes.
	copySize = 4 << 10

	// connectTimeout ends attempts to connect that outlive their request.
	connectTimeout = 10 * time.Second
	// idleTimeout is shorter than that of the kubelet, 90 s.
	idleTimeout = time.Minute
)

// Options of a client.
type Options struct {
	// Endpoint of the authenticated server, https://127.0.0.1:10250. Required.
	Endpoint string
	// HealthzEndpoint of the plain server, http://127.0.0.1:10248. Required.
	HealthzEndpoint string
	// CertificateFiles hold, in PEM, certificates that the kubelet may serve or
	// that may have signed it; other blocks in them are skipped, as are files
	// that do not exist.
	CertificateFiles []string
	// InsecureSkipTLSVerify shows the credentials to whoever listens.
	InsecureSkipTLSVerify bool
	// Credentials are those for the API server; its certificate authority is
	// trusted for the kubelet, too. Nothing else of it is used. Required.
	Credentials *rest.Config
}

// Client asks the kubelet of this node. It is safe for concurrent use.
type Client struct {
	endpoint, healthzEndpoint string
	// authenticated is secure with the credentials added to every request.
	authenticated http.RoundTripper
	secure, plain *http.Transport
}

// Response is an answer of the kubelet.
type Response struct {
	// Status is the HTTP status code.
	Status int
	// Body is complete; empty if it was copied elsewhere.
	Body []byte
}

// New returns a client. It does not connect yet, and does not read the
// CertificateFiles.
func New(options Options) (*Client, error) {
	if err := validate(options.Endpoint, "https"); err != nil {
		return nil, err
	}
	if err := validate(options.HealthzEndpoint, "http"); err != nil {
		return nil, err
	}
	credentials, err := credentialsOf(options.Credentials)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(credentials)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate for the kubelet: %w", err)
	}
	if !options.InsecureSkipTLSVerify {
		tlsConfig.VerifyConnection = trust{
			files:  options.CertificateFiles,
			caFile: options.Credentials.CAFile,
			caData: options.Credentials.CAData,
		}.verify
	}
	secure, plain := newTransport(), newTransport()
	secure.TLSClientConfig = tlsConfig
	plain.DisableKeepAlives = true // to see whether the kubelet still accepts connections
	authenticated, err := transport.HTTPWrappersForConfig(credentials, secure)
	if err != nil {
		return nil, fmt.Errorf("preparing the credentials for the kubelet: %w", err)
	}
	return &Client{
		endpoint:        strings.TrimSuffix(options.Endpoint, "/"),
		healthzEndpoint: strings.TrimSuffix(options.HealthzEndpoint, "/"),
		authenticated:   authenticated,
		secure:          secure,
		plain:           plain,
	}, nil
}

func validate(endpoint, scheme string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != scheme || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("kubelet endpoint %q: accepted are addresses such as %s://127.0.0.1:10250", endpoint, scheme)
	}
	return nil
}

// credentialsOf returns what config says about who is asking, and nothing of how
// it reaches and trusts the API server. In particular its wrappers are left out:
// they are for answers of the API server.
func credentialsOf(config *rest.Config) (*transport.Config, error) {
	if config == nil {
		return nil, errors.New("no credentials for the kubelet: those for the API server are needed")
	}
	config = rest.CopyConfig(config)
	config.WrapTransport, config.Transport, config.Dial, config.Proxy = nil, nil, nil, nil
	config.Impersonate = rest.ImpersonationConfig{}
	credentials, err := config.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("preparing the credentials for the kubelet: %w", err)
	}
	tlsConfig := &credentials.TLS
	tlsConfig.Insecure = true // trust.verify replaces the verification of crypto/tls
	tlsConfig.CAFile, tlsConfig.CAData, tlsConfig.ServerName, tlsConfig.NextProtos = "", nil, "", nil
	return credentials, nil
}

// newTransport returns a transport for one server on the same host. It speaks
// HTTP/1.1, where a request that is given up takes its connection along: no run
// depends on a connection that has hung before. One that the kubelet has closed
// in between is replaced by net/http without an error.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression:  true, // costs more than it saves on loopback
		MaxIdleConns:        2,
		IdleConnTimeout:     idleTimeout,
	}
}

// Close closes idle connections. The client can be used on.
func (c *Client) Close() {
	c.secure.CloseIdleConnections()
	c.plain.CloseIdleConnections()
}

// Get asks the authenticated server for path, such as /healthz. The deadline of
// ctx covers the whole answer.
//
// An error is [ErrNoAccess] if the kubelet may well be in order but can't be
// asked, syscall.ECONNREFUSED if nobody listens, and context.DeadlineExceeded if
// the answer was not complete in time. Any other answer than those is a
// Response, whatever its status.
func (c *Client) Get(ctx context.Context, path string) (Response, error) {
	return c.get(ctx, path, nil)
}

// Copy is Get for large answers: the body of one with status 200 is written to w
// as it arrives, and not kept. w may have been written to if there is an error.
func (c *Client) Copy(ctx context.Context, path string, w io.Writer) (Response, error) {
	return c.get(ctx, path, w)
}

func (c *Client) get(ctx context.Context, path string, w io.Writer) (Response, error) {
	response, err := fetch(ctx, c.authenticated, c.endpoint+path, w)
	if err != nil {
		return Response{}, err
	}
	if response.Status == http.StatusUnauthorized {
		// The client certificate belongs to the connection and may have expired.
		c.secure.CloseIdleConnections()
	}
	if err := refusal(response, path); err != nil {
		return Response{}, fmt.Errorf("GET %s: %w", c.endpoint+path, err)
	}
	return response, nil
}

// Healthz asks the plain server for /healthz, without credentials and on a
// connection of its own. Its errors are those of Get, but for ErrNoAccess.
func (c *Client) Healthz(ctx context.Context) (Response, error) {
	return fetch(ctx, c.plain, c.healthzEndpoint+"/healthz", nil)
}

func fetch(ctx context.Context, roundTripper http.RoundTripper, address string, w io.Writer) (Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Response{}, err
	}
	// A round tripper, unlike an http.Client, follows no redirect: the
	// credentials stay here.
	response, err := roundTripper.RoundTrip(request)
	if err != nil {
		return Response{}, failed(ctx, address, err)
	}
	defer func() { _ = response.Body.Close() }() // nothing is lost: it has been read
	var kept bytes.Buffer
	if w == nil || response.StatusCode != http.StatusOK {
		w = &kept
	}
	size, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(response.Body, MaxBody+1), make([]byte, copySize))
	if err == nil {
		// What a server still sends when it sees a request given up may look like
		// a whole answer.
		err = ctx.Err()
	}
	if err != nil {
		return Response{}, failed(ctx, address, err)
	}
	if size > MaxBody {
		return Response{}, fmt.Errorf("GET %s: the answer is larger than %d MiB", address, MaxBody>>20)
	}
	return Response{Status: response.StatusCode, Body: kept.Bytes()}, nil
}

// onlyWriter hides from io.CopyBuffer that w may have better ways, so that the
// buffer given is used.
type onlyWriter struct{ io.Writer }
