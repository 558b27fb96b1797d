package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	config "github.com/nodemend/nodemend/config/detector"
)

// dialTimeout is for how long a server may take to accept a connection.
const dialTimeout = 10 * time.Second

// maxHeader bounds the header of an answer.
const maxHeader = 64 << 10

// clientFor returns a client that verifies servers, follows no redirection, uses no proxy and keeps
// no connection: each request shows whether a new one is accepted. Without a caFile it believes
// those that are given, or if that is nil those that the system does.
func clientFor(trust config.Trust, believed []byte) (*http.Client, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: trust.ServerName}
	from := "the cluster's certificate authority"
	if trust.CAFile != "" {
		var err error
		if believed, err = os.ReadFile(trust.CAFile); err != nil {
			return nil, fmt.Errorf("reading caFile: %w", err)
		}
		from = trust.CAFile
	}
	if believed != nil {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(believed) {
			return nil, fmt.Errorf("%s has no certificate in PEM", from)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: tlsConfig, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// authorize sends the token, which is read anew since it may have been renewed.
func authorize(request *http.Request, trust config.Trust) error {
	if trust.TokenFile == "" {
		return nil
	}
	text, err := tokenOf(trust.TokenFile)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+text)
	return nil
}

// tokenOf reads the file of a token.
func tokenOf(file string) (string, error) {
	token, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading tokenFile: %w", err)
	}
	text := strings.TrimSpace(string(token))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("tokenFile %s: accepted is one line that is not empty", file)
	}
	return text, nil
}

// timedOut reports whether err is that an answer has not come in time.
func timedOut(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// unverified reports whether err is that the server is not known to be the one that is meant, or
// does not speak TLS.
func unverified(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
}
