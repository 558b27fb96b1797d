package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

const accepted = `the key itself, not the name of its file: an ECDSA key on P-256 as PEM, as
"cosign generate-key-pair" or "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256" make one.`

// privateKey returns the key of a text in PEM: PKCS #8, SEC 1, or PKCS #8 that cosign has
// encrypted.
func privateKey(text, password string) (*ecdsa.PrivateKey, error) {
	refuse := func(format string, args ...any) (*ecdsa.PrivateKey, error) {
		return nil, fmt.Errorf("COSIGN_PRIVATE_KEY %w. It has to be %s", fmt.Errorf(format, args...), accepted)
	}
	if text == "" {
		return refuse("is not set")
	}
	block, rest := pem.Decode([]byte(text))
	for block != nil && block.Type == "EC PARAMETERS" { // openssl ecparam writes the curve first
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return refuse("is not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "ENCRYPTED COSIGN PRIVATE KEY", "ENCRYPTED SIGSTORE PRIVATE KEY":
		var plain []byte
		if plain, err = encrypted.Decrypt(block.Bytes, []byte(password)); err != nil {
			return nil, errors.New("COSIGN_PASSWORD is not the password of the key in COSIGN_PRIVATE_KEY, or the key is damaged")
		}
		key, err = x509.ParsePKCS8PrivateKey(plain)
	default:
		return refuse("is a PEM block of the type %q", block.Type)
	}
	if err != nil {
		return refuse("can't be read: %w", err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return refuse("is of the type %T", key)
	}
	if private.Curve != elliptic.P256() {
		return refuse("is a key on %s", private.Curve.Params().Name)
	}
	return private, nil
}

// publicKey returns the public part of a key as PEM.
func publicKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// sign signs the SHA-256 of a content. Without a source of randomness the signature is that
// of RFC 6979, always the same.
func sign(key *ecdsa.PrivateKey, content []byte) ([]byte, error) {
	sum := sha256.Sum256(content)
	return key.Sign(nil, sum[:], crypto.SHA256)
}
