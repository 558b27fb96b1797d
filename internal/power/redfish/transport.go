package redfish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

// TLS says how a service is known to be the one. With neither, it needs a certificate of an
// authority that this machine trusts. There is no way to trust anybody.
type TLS struct {
	// CAFile has certificates in PEM: one of them has signed that of the service, or is it.
	CAFile string
	// ServerName is the name in the certificate, if it is not the host of the URL.
	ServerName string
	// Fingerprint is the SHA-256 of the certificate of the service, in hexadecimal digits.
	// No name and no authority is needed then: BMCs often have a certificate that they have
	// signed themselves.
	Fingerprint string
}

// errCertificate is of a service that is not known to be the one.
var errCertificate = errors.New("the certificate of the service is not accepted")

// invalid returns why a certificate is not accepted, without the time of now, which crypto/x509 names.
func invalid(err error) error {
	var expired x509.CertificateInvalidError
	if errors.As(err, &expired) && expired.Reason == x509.Expired {
		expired.Detail = fmt.Sprintf("it is valid from %s until %s", expired.Cert.NotBefore.Format(time.RFC3339), expired.Cert.NotAfter.Format(time.RFC3339))
		return expired
	}
	return err
}

const (
	// maxBody is more than any system is long.
	maxBody = 4 << 20
	// maxRequest is how long one request may take.
	maxRequest = 15 * time.Second
	// maxRequests is how many there may be in a session: more than for the parts and the log of
	// a big server, each asked for by itself.
	maxRequests = 600
)

func (t TLS) validate() error {
	if t.Fingerprint == "" {
		return nil
	}
	if _, err := t.fingerprint(); err != nil {
		return err
	}
	if t.CAFile != "" || t.ServerName != "" {
		return errors.New("the certificate is known by its fingerprint: neither an authority nor a name can be given, too")
	}
	return nil
}

// fingerprint returns the bytes; colons between them are left out.
func (t TLS) fingerprint() ([sha256.Size]byte, error) {
	digits, err := hex.DecodeString(strings.ReplaceAll(t.Fingerprint, ":", ""))
	if err != nil || len(digits) != sha256.Size {
		return [sha256.Size]byte{}, fmt.Errorf("the fingerprint is not a SHA-256: accepted are %d hexadecimal digits, with colons or without", 2*sha256.Size)
	}
	return [sha256.Size]byte(digits), nil
}

// transport reads the file anew: people exchange certificates.
func (t TLS) transport() (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificates of the service: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", t.CAFile)
		}
	}
	if t.Fingerprint != "" {
		want, err := t.fingerprint()
		if err != nil {
			return nil, err
		}
		config.InsecureSkipVerify = true //nolint:gosec // this very certificate is asked for instead
		config.VerifyConnection = func(state tls.ConnectionState) error {
			if got := sha256.Sum256(state.PeerCertificates[0].Raw); got != want {
				return fmt.Errorf("%w: its fingerprint is %x", errCertificate, got)
			}
			return nil
		}
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return power.Steady(connection), nil
	}
	// Without a proxy: it would be between us and the power.
	return &http.Transport{DialContext: dial, TLSClientConfig: config, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10}, nil
}

// newClient returns a client that sends what is secret to no other host, wherever the service
// leads it, and reads no endless answers.
func newClient(transport *http.Transport, o Options) *http.Client {
	return &http.Client{
		Timeout:   cmp.Or(o.Patience, maxRequest),
		Transport: &bounded{Transport: transport, host: strings.TrimPrefix(o.URL, "https://")},
	}
}

// bounded is a transport to one host, for one session.
type bounded struct {
	*http.Transport
	host     string
	requests atomic.Int64
}

// RoundTrip is that of the transport.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" || request.URL.Host != b.host {
		return nil, fmt.Errorf("%w: the service leads to another address", power.ErrUnsupported)
	}
	// A session is ended whatever it has asked before.
	if b.requests.Add(1) > maxRequests && request.Method != http.MethodDelete {
		return nil, fmt.Errorf("%w: %d requests were not enough", ErrTooMuch, maxRequests)
	}
	response, err := b.Transport.RoundTrip(request)
	if err == nil {
		response.Body = body{io.LimitReader(response.Body, maxBody), response.Body}
	}
	return response, err
}

type body struct {
	io.Reader
	io.Closer
}
