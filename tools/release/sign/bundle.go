package main

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/nodemend/nodemend/tools/release/oci"
)

// bundle returns a Sigstore bundle as JSON, a file that has a signature and says by which key it
// is: see sigstore_bundle.proto of github.com/sigstore/protobuf-specs. Field and content are one
// of those that a bundle is about. No log knows the signature, so there is no entry of one.
func bundle(key *ecdsa.PrivateKey, field string, content any) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	hint := sha256.Sum256(der)
	file, err := json.Marshal(map[string]any{
		"mediaType":            oci.BundleType,
		"verificationMaterial": map[string]any{"publicKey": map[string]string{"hint": base64.StdEncoding.EncodeToString(hint[:])}},
		field:                  content,
	})
	return append(file, '\n'), err
}

// bundleOfFile returns the bundle of a file's signature, which is in base64.
func bundleOfFile(key *ecdsa.PrivateKey, file []byte, signature string) ([]byte, error) {
	digest := sha256.Sum256(file)
	return bundle(key, "messageSignature", map[string]any{
		"messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": digest[:]}, "signature": signature,
	})
}

// bundleOfImage returns the bundle that signs the image of a digest: that of a statement that says
// nothing else of it. "cosign sign" of version 3 writes the same.
func bundleOfImage(key *ecdsa.PrivateKey, digest string) ([]byte, error) {
	signed, err := envelope(key, map[string]any{
		"_type":         statementType,
		"subject":       []map[string]any{{"digest": map[string]string{"sha256": digest}}},
		"predicateType": "https://sigstore.dev/cosign/sign/v1",
		"predicate":     map[string]any{},
	})
	if err != nil {
		return nil, err
	}
	return bundle(key, "dsseEnvelope", signed)
}

// envelope signs an in-toto statement.
func envelope(key *ecdsa.PrivateKey, statement map[string]any) (dsse.Envelope, error) {
	payload, err := json.Marshal(statement)
	if err != nil {
		return dsse.Envelope{}, err
	}
	signed, err := signature(key, dsse.PAE(payloadType, payload))
	return dsse.Envelope{
		PayloadType: payloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []dsse.Signature{{Sig: signed}},
	}, err
}
