package kubeletapi

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// trust is what makes a process the kubelet; see the package comment.
type trust struct {
	files []string
	// caData, or else caFile, is the certificate authority of the API server.
	caFile string
	caData []byte
}

// verify is a tls.Config.VerifyConnection: crypto/tls calls it before it sends
// the client certificate, net/http sends the request only after it.
func (t trust) verify(state tls.ConnectionState) error {
	served := state.PeerCertificates[0]
	accepted, problems := t.load()
	roots := x509.NewCertPool() // never nil, which would mean the system's
	for _, certificate := range accepted {
		if certificate.Equal(served) {
			return nil
		}
		roots.AddCert(certificate)
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := served.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: who listens there serves a certificate for %q, issued by %q, SHA-256 %x, that is neither in nor signed by one in %s, nor signed by the API server's authority: add a file with it, or with its authority, to kubelet.certificateFiles: %w",
		ErrNoAccess, served.Subject, served.Issuer, sha256.Sum256(served.Raw), strings.Join(t.files, ", "), errors.Join(append([]error{err}, problems...)...))
}

// load returns all certificates that are trusted now, and what is wrong with the
// files.
func (t trust) load() (certificates []*x509.Certificate, problems []error) {
	add := func(name string, data []byte) {
		found, err := parse(data)
		certificates = append(certificates, found...)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	files := t.files
	if len(t.caData) > 0 {
		add("the API server's certificate authority", t.caData)
	} else if t.caFile != "" {
		files = append([]string{t.caFile}, files...)
	}
	for _, file := range files {
		switch data, err := os.ReadFile(file); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = append(problems, err)
		default:
			add(file, data)
		}
	}
	return certificates, problems
}

// parse returns the certificates in data. The key, which follows them in
// kubelet-server-current.pem, is skipped.
func parse(data []byte) (certificates []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return certificates, err
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	return certificates, nil
}
