package kubeletapi_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// identity is a certificate with its key.
type identity struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	chain       [][]byte // beginning with certificate
}

// issue makes a certificate. issuer nil: it signs itself. change may alter what
// is a valid serving certificate for the host node-1 otherwise.
func issue(t testing.TB, name string, issuer *identity, change func(*x509.Certificate)) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{"node-1"},
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},

		BasicConstraintsValid: true,
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	var above [][]byte
	if issuer != nil {
		parent, signer, above = issuer.certificate, issuer.key, issuer.chain
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{certificate: certificate, key: key, chain: append([][]byte{der}, above...)}
}

func authority(c *x509.Certificate) {
	c.IsCA, c.KeyUsage, c.ExtKeyUsage, c.DNSNames = true, x509.KeyUsageCertSign, nil, nil
}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }

func forClients(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

func (i *identity) tls() tls.Certificate {
	return tls.Certificate{Certificate: i.chain, PrivateKey: i.key}
}

// pem returns the chain, and the key behind it as in kubelet-server-current.pem.
func (i *identity) pem(t testing.TB) (certificates, key []byte) {
	t.Helper()
	for _, der := range i.chain {
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalECPrivateKey(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return certificates, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// file writes the chain and the key to a file.
func (i *identity) file(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "certificates.pem")
	i.write(t, path)
	return path
}

func (i *identity) write(t testing.TB, path string) {
	t.Helper()
	certificates, key := i.pem(t)
	if err := os.WriteFile(path, bytes.Join([][]byte{certificates, key}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}
