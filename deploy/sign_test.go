package deploy_test

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/helm"
)

const (
	chartFile          = "nodemend-0.1.0.tgz"
	imageFile          = "nodemend-v0.1.0-image.tar"
	imageSignatureFile = "nodemend-v0.1.0-image-signature.tar"
	provenanceFile     = "nodemend-v0.1.0.intoto.jsonl"
	provenanceBundle   = "nodemend-v0.1.0.intoto.sigstore.json"
	imageBundle        = "nodemend-v0.1.0-image.sigstore.json"
	imageName          = "registry.example.com:5000/nodemend"
	commit             = "0123456789abcdef0123456789abcdef01234567"

	// cosignKey is for this test only. "cosign generate-key-pair" of cosign 3.1.3 has made it,
	// with the password "throw-away".
	cosignKey = `-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----
eyJrZGYiOnsibmFtZSI6InNjcnlwdCIsInBhcmFtcyI6eyJOIjo2NTUzNiwiciI6
OCwicCI6MX0sInNhbHQiOiIxWXNMR0dybVZ1Vjk2ZFVZd1FxZWdVY0hYbkNHWGIx
WU5jS3o5TWFKQ2VRPSJ9LCJjaXBoZXIiOnsibmFtZSI6Im5hY2wvc2VjcmV0Ym94
Iiwibm9uY2UiOiJJZHRSTENnYUNycDFjRjFlS1d2TWJOU2thT0tkUEhiUSJ9LCJj
aXBoZXJ0ZXh0IjoiRS8xM0RUc2JrazFFU0w1VHZFZ0plMWluaTZheEd0a0huMmZR
SXQwNklBZnFGS3hmejM3SG9qbkVuVytGeVZ2UUo1VUVobjJTalRzWjBzeXNSUXdm
TjNXbWNmZUdrS1dBL1JVQU5ieFJ2QnFlTXBvS3hYTnBmVHBXUFFocEtSYUg0WjlE
bFBCL2IwY2dyNGR2YmZ3b1gxUHorczRnNS9SQkpYNjM1TEFsYXA4c3NVcDE1Mm50
WUlBa29WVXVFaXpzcnBHME5ZblJRTTdxMVE9PSJ9
-----END ENCRYPTED SIGSTORE PRIVATE KEY-----
`
)

// signer is the tools that make and sign an unsigned release.
type signer struct{ dir string }

func newSigner(t *testing.T) signer {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", helm.Root(t)+"/tools/release", "-o", dir, "./image", "./sign")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tools: %v: %s", err, output)
	}
	return signer{dir}
}

// run runs a tool with these variables and returns what it prints.
func (s signer) run(t *testing.T, variables []string, tool string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.dir, tool), args...)
	cmd.Env = append(os.Environ(), append([]string{"SOURCE_DATE_EPOCH=1700000000", "COSIGN_PRIVATE_KEY=", "COSIGN_PASSWORD="}, variables...)...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// release returns the directory of a release that is not signed.
func (s signer) release(t *testing.T) string {
	t.Helper()
	dist, root := t.TempDir(), t.TempDir()
	put(t, filepath.Join(root, "nodemend"), []byte("#!"))
	if output, err := s.run(t, nil, "image", "-name="+imageName+":v0.1.0", "-version=v0.1.0", "-o="+filepath.Join(dist, imageFile), "amd64="+root, "arm64="+root); err != nil {
		t.Fatalf("writing the image: %v: %s", err, output)
	}
	put(t, filepath.Join(dist, chartFile), []byte("the chart"))
	put(t, filepath.Join(dist, "install.yaml"), []byte("all of it"))
	sums := ""
	for _, name := range slices.Sorted(maps.Keys(content(t, dist))) {
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(get(t, filepath.Join(dist, name))), name)
	}
	put(t, filepath.Join(dist, "SHA256SUMS"), []byte(sums))
	return dist
}

func (s signer) sign(t *testing.T, dist string, variables ...string) (string, error) {
	t.Helper()
	return s.run(t, variables, "sign", "-dist="+dist, "-image="+imageName, "-version=v0.1.0", "-commit="+commit)
}

// signed returns the directory of a release that is signed with a key.
func (s signer) signed(t *testing.T, variables ...string) string {
	t.Helper()
	dist := s.release(t)
	if output, err := s.sign(t, dist, variables...); err != nil {
		t.Fatalf("signing: %v: %s", err, output)
	}
	return dist
}

func TestASignedReleaseVerifiesWithEveryKindOfKey(t *testing.T) {
	s := newSigner(t)
	private := newKey(t, elliptic.P256())
	sec1, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, variables := range map[string][]string{
		"PKCS #8":         {"COSIGN_PRIVATE_KEY=" + pkcs8(t, private)},
		"of openssl":      {"COSIGN_PRIVATE_KEY=" + inPEM("EC PARAMETERS", []byte{6}) + inPEM("EC PRIVATE KEY", sec1)},
		"of cosign":       {"COSIGN_PRIVATE_KEY=" + cosignKey, "COSIGN_PASSWORD=throw-away"},
		"of older cosign": {"COSIGN_PRIVATE_KEY=" + strings.ReplaceAll(cosignKey, "SIGSTORE", "COSIGN"), "COSIGN_PASSWORD=throw-away"},
	} {
		t.Run(name, func(t *testing.T) {
			dist := s.signed(t, variables...)
			public := publicKey(t, filepath.Join(dist, "cosign.pub"))
			if name != "of cosign" && name != "of older cosign" && !public.Equal(&private.PublicKey) {
				t.Error("cosign.pub is not of the key that signs")
			}
			if err := verify(t, dist, public); err != nil {
				t.Error(err)
			}
			if err := verify(t, dist, &newKey(t, elliptic.P256()).PublicKey); err == nil {
				t.Error("it verifies with another key, too")
			}
			if output, err := s.run(t, variables, "sign", "-public"); err != nil || output != string(get(t, filepath.Join(dist, "cosign.pub"))) {
				t.Errorf("sign -public: %v: %s", err, output)
			}
		})
	}
}

func TestOpenSSLVerifiesTheChartAndTheChecksums(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("skipped: there is no openssl here")
	}
	dist := newSigner(t).signed(t, "COSIGN_PRIVATE_KEY="+pkcs8(t, newKey(t, elliptic.P256())))
	openssl := func(file string) (string, error) { // as docs/verify.md says
		script := fmt.Sprintf("openssl dgst -sha256 -verify cosign.pub -signature <(base64 -d %[1]s.sig) %[1]s", file)
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir = dist
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	for _, file := range []string{chartFile, "SHA256SUMS"} {
		if output, err := openssl(file); err != nil {
			t.Errorf("%s: %v: %s", file, err, output)
		}
		put(t, filepath.Join(dist, file), append(get(t, filepath.Join(dist, file)), '\n'))
		if output, err := openssl(file); err == nil {
			t.Errorf("%s with one more byte: %s", file, output)
		}
	}
}

func TestCosignVerifiesEveryBundle(t *testing.T) {
	cosign := findCosign(t)
	dist := newSigner(t).signed(t, "COSIGN_PRIVATE_KEY="+pkcs8(t, newKey(t, elliptic.P256())))
	for _, verification := range [][]string{ // as docs/verify.md says
		{"verify-blob", "--bundle=SHA256SUMS.sigstore.json", "SHA256SUMS"},
		{"verify-blob", "--bundle=" + chartFile + ".sigstore.json", chartFile},
		{"verify-blob-attestation", "--type=slsaprovenance1", "--bundle=" + provenanceBundle, chartFile},
		{"verify-blob-attestation", "--type=slsaprovenance1", "--bundle=" + provenanceBundle, imageFile},
	} {
		if output, err := cosign(t, dist, verification...); err != nil {
			t.Errorf("%q: %v: %s", verification, err, output)
		}
		verification[len(verification)-1] = "cosign.pub" // another file
		if output, err := cosign(t, dist, verification...); err == nil {
			t.Errorf("%q: %s", verification, output)
		}
	}
}

// findCosign returns what runs a command of the cosign that is here, with the key of a release.
func findCosign(t *testing.T) func(t *testing.T, dist string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("cosign"); err != nil {
		t.Skip("skipped: no cosign in $PATH; to install it: go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3")
	}
	return func(t *testing.T, dist string, args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "cosign", slices.Insert(args, 1, "--key=cosign.pub", "--insecure-ignore-tlog=true")...)
		cmd.Dir = dist
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
}

func TestAChangedByteIsSeen(t *testing.T) {
	dist := newSigner(t).signed(t, "COSIGN_PRIVATE_KEY="+pkcs8(t, newKey(t, elliptic.P256())))
	public := publicKey(t, filepath.Join(dist, "cosign.pub"))
	for name, change := range map[string]struct{ file, after string }{
		"the chart":              {chartFile, "the "},
		"the chart's signature":  {chartFile + ".sig", "ME"},
		"the checksums":          {"SHA256SUMS", "install"},
		"the sums' signature":    {"SHA256SUMS.sig", "ME"},
		"the image":              {imageFile, `"digest":"sha256:`},
		"the signed digest":      {imageSignatureFile, `docker-manifest-digest":"sha256:`},
		"the image's signature":  {imageSignatureFile, `cosign/signature":"ME`},
		"what was built":         {provenanceFile, `payload":"`},
		"the provenance's claim": {provenanceFile, `sig":"ME`},
		"a bundle's signature":   {chartFile + ".sigstore.json", `signature":"ME`},
		"a bundle's digest":      {"SHA256SUMS.sigstore.json", `digest":"`},
		"a bundle's key":         {"SHA256SUMS.sigstore.json", `hint":"`},
		"what the image is":      {imageBundle, `payload":"`},
		"the image's claim":      {imageBundle, `sig":"ME`},
		"the bundled provenance": {provenanceBundle, `payload":"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dist, change.file)
			before := get(t, path)
			at := bytes.Index(before, []byte(change.after))
			if at < 0 {
				t.Fatalf("there is no %s", change.after)
			}
			changed := bytes.Clone(before)
			changed[at+len(change.after)] ^= 1
			put(t, path, changed)
			defer put(t, path, before)
			if err := verify(t, dist, public); err == nil {
				t.Error("it verifies")
			}
		})
	}
	if err := verify(t, dist, public); err != nil {
		t.Error("as it was: ", err)
	}
}

func TestTheSameReleaseIsSignedWithTheSameBytes(t *testing.T) {
	s, key := newSigner(t), "COSIGN_PRIVATE_KEY="+pkcs8(t, newKey(t, elliptic.P256()))
	a, b := content(t, s.signed(t, key)), content(t, s.signed(t, key))
	if len(a) != 13 {
		t.Errorf("it has the files %q", slices.Sorted(maps.Keys(a)))
	}
	if !maps.Equal(a, b) {
		t.Error("another time it is signed with other bytes")
	}
}

// Skopeo and podman read an index into the types of the OCI image specification and write
// it anew when they copy it, and older ones know fewer fields.
func TestTheDigestOfTheImageStaysTheSameWhenItIsCopied(t *testing.T) {
	files := untar(t, filepath.Join(newSigner(t).release(t), imageFile))
	var names, index descriptor
	if err := json.Unmarshal(files["index.json"], &names); err != nil {
		t.Fatal(err)
	}
	before, err := blob(files, names.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(before, &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != 2 {
		t.Errorf("it has the images %v", index.Manifests)
	}
	after, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("the index\n%s\nis copied as\n%s", before, after)
	}
}

func TestAWrongKeyIsRefusedAndNothingIsWritten(t *testing.T) {
	s := newSigner(t)
	dist := s.release(t)
	unsigned := content(t, dist)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	const kinds = `an ECDSA key on P-256 as PEM`
	for name, test := range map[string]struct {
		key  string
		says []string
	}{
		"none":              {"", []string{"COSIGN_PRIVATE_KEY is not set", kinds}},
		"a file's name":     {"/root/cosign.key", []string{"COSIGN_PRIVATE_KEY is not PEM", "not the name of its file", kinds}},
		"RSA":               {pkcs8(t, rsaKey), []string{"COSIGN_PRIVATE_KEY is of the type *rsa.PrivateKey", kinds}},
		"another curve":     {pkcs8(t, newKey(t, elliptic.P384())), []string{"COSIGN_PRIVATE_KEY is a key on P-384", kinds}},
		"the public key":    {inPEM("PUBLIC KEY", public), []string{`COSIGN_PRIVATE_KEY is a PEM block of the type "PUBLIC KEY"`, kinds}},
		"damaged":           {inPEM("PRIVATE KEY", []byte("no DER")), []string{"COSIGN_PRIVATE_KEY can't be read", kinds}},
		"another password":  {cosignKey, []string{"COSIGN_PASSWORD is not the password of the key in COSIGN_PRIVATE_KEY"}},
		"damaged of cosign": {inPEM("ENCRYPTED SIGSTORE PRIVATE KEY", []byte("{}")), []string{"the key is damaged"}},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := s.sign(t, dist, "COSIGN_PRIVATE_KEY="+test.key, "COSIGN_PASSWORD=wrong")
			if err == nil {
				t.Fatal("it signs")
			}
			for _, what := range test.says {
				if !strings.Contains(output, what) {
					t.Errorf("it does not say %q: %s", what, output)
				}
			}
			if !maps.Equal(content(t, dist), unsigned) {
				t.Error("it has changed the release")
			}
		})
	}
}

func TestABuildThatCannotBeSignedEndsBeforeItBegins(t *testing.T) {
	private := newKey(t, elliptic.P256())
	dist := t.TempDir()
	put(t, filepath.Join(dist, "before"), nil)
	for name, test := range map[string]struct {
		key, file, content string
		committed          bool
		says               string
	}{
		"no key":          {"/root/cosign.key", "a", "", true, "COSIGN_PRIVATE_KEY is not PEM"},
		"another key":     {pkcs8(t, private), "cosign.pub", "of another", true, "COSIGN_PRIVATE_KEY does not belong to cosign.pub"},
		"not a commit":    {pkcs8(t, private), "a", "", false, "the work tree has changes"},
		"no notes":        {pkcs8(t, private), "CHANGELOG.md", "## [Unreleased]\n\n### Upgrade\n", true, `CHANGELOG.md has no section "## [0.1.0]" with "### Upgrade"`},
		"all can be done": {pkcs8(t, private), "a", "", true, "cannot find main module"}, // what it builds is not in this tree
	} {
		t.Run(name, func(t *testing.T) {
			tree := t.TempDir()
			if err := os.CopyFS(filepath.Join(tree, "tools", "release"), os.DirFS(helm.Root(t)+"/tools/release")); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(tree, "deploy", "chart"), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(tree, "deploy", "chart", "Chart.yaml"), get(t, "chart/Chart.yaml"))
			put(t, filepath.Join(tree, "CHANGELOG.md"), []byte("## [0.1.0]\n\n### Upgrade\n"))
			put(t, filepath.Join(tree, test.file), []byte(test.content))
			script := "git init -q && git add tools deploy && "
			if test.committed {
				script += "git add . && "
			}
			script += "git -c user.name=a -c user.email=a@example.com commit -q -m a && tools/release/build release"
			build := exec.CommandContext(t.Context(), "bash", "-c", script)
			build.Dir = tree
			build.Env = append(os.Environ(), "VERSION=v0.1.0", "DIST="+dist, "COSIGN_PRIVATE_KEY="+test.key)
			output, err := build.CombinedOutput()
			if err == nil || !strings.Contains(string(output), test.says) {
				t.Errorf("%v: %s", err, output)
			}
			if len(content(t, dist)) != 1 {
				t.Error("it has changed the release")
			}
		})
	}
}

func TestAReleaseThatIsNotWholeIsNotSigned(t *testing.T) {
	s, key := newSigner(t), "COSIGN_PRIVATE_KEY="+pkcs8(t, newKey(t, elliptic.P256()))
	for name, test := range map[string]struct {
		spoil func(dist string) error
		says  string
	}{
		"a changed file": {func(dist string) error {
			return os.WriteFile(filepath.Join(dist, "install.yaml"), []byte("less"), 0o600)
		}, "install.yaml has the checksum"},
		"a missing file": {func(dist string) error { return os.Remove(filepath.Join(dist, "install.yaml")) }, "install.yaml: no such file"},
		"no checksums":   {func(dist string) error { return os.Remove(filepath.Join(dist, "SHA256SUMS")) }, "SHA256SUMS: no such file"},
		"another file": {func(dist string) error {
			return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte("0  ../a\n"), 0o600)
		}, `the line "0  ../a\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			dist := s.release(t)
			if err := test.spoil(dist); err != nil {
				t.Fatal(err)
			}
			before := content(t, dist)
			if output, err := s.sign(t, dist, key); err == nil || !strings.Contains(output, test.says) {
				t.Errorf("%v: %s", err, output)
			}
			if !maps.Equal(content(t, dist), before) {
				t.Error("it has written something")
			}
		})
	}
}

func TestSigningHasHelp(t *testing.T) {
	output, err := newSigner(t).run(t, nil, "sign", "--help")
	if err != nil || !strings.Contains(output, "COSIGN_PRIVATE_KEY") || !strings.Contains(output, "SHA256SUMS.sig") {
		t.Errorf("%v: %s", err, output)
	}
}

// verify returns what is wrong with a release, by code of its own and the formats as
// they are published.
func verify(t *testing.T, dist string, public *ecdsa.PublicKey) error {
	t.Helper()
	for _, file := range []string{chartFile, "SHA256SUMS"} {
		if err := verifySignature(public, get(t, filepath.Join(dist, file)), string(get(t, filepath.Join(dist, file+".sig")))); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := verifyFileBundle(t, filepath.Join(dist, file), public); err != nil {
			return fmt.Errorf("the bundle of %s: %w", file, err)
		}
	}
	digest, err := verifyImage(t, dist, public)
	if err != nil {
		return fmt.Errorf("the image: %w", err)
	}
	if err := verifyImageBundle(t, dist, public, digest); err != nil {
		return fmt.Errorf("the bundle of the image: %w", err)
	}
	if err := verifyProvenance(t, dist, public, digest); err != nil {
		return fmt.Errorf("the provenance: %w", err)
	}
	return nil
}

// bundle is what sigstore_bundle.proto of Sigstore's protobuf-specs says of version 0.3, as far
// as it takes to verify a signature by a key that no log knows.
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	MessageSignature *struct {
		MessageDigest struct {
			Algorithm string `json:"algorithm"`
			Digest    []byte `json:"digest"`
		} `json:"messageDigest"`
		Signature string `json:"signature"`
	} `json:"messageSignature"`
	DSSEEnvelope json.RawMessage `json:"dsseEnvelope"`
}

// readBundle returns a bundle that names this key. What the format does not know is an error,
// as it is to a reader of protobuf.
func readBundle(t *testing.T, file string, public *ecdsa.PublicKey) (*bundle, error) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(get(t, file)))
	decoder.DisallowUnknownFields()
	b := &bundle{}
	if err := decoder.Decode(b); err != nil {
		return nil, err
	}
	if b.MediaType != "application/vnd.dev.sigstore.bundle.v0.3+json" {
		return nil, fmt.Errorf("it is of the type %s", b.MediaType)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	if hint := b.VerificationMaterial.PublicKey.Hint; hint != base64.StdEncoding.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("it names the key %s", hint)
	}
	return b, nil
}

func verifyFileBundle(t *testing.T, file string, public *ecdsa.PublicKey) error {
	t.Helper()
	b, err := readBundle(t, file+".sigstore.json", public)
	if err != nil {
		return err
	}
	if b.MessageSignature == nil || b.DSSEEnvelope != nil {
		return errors.New("it has no signature of a file")
	}
	content := get(t, file)
	sum, named := sha256.Sum256(content), b.MessageSignature.MessageDigest
	if named.Algorithm != "SHA2_256" || !bytes.Equal(named.Digest, sum[:]) {
		return fmt.Errorf("it names the digest %s %x", named.Algorithm, named.Digest)
	}
	return verifySignature(public, content, b.MessageSignature.Signature)
}

func verifyImageBundle(t *testing.T, dist string, public *ecdsa.PublicKey, digest string) error {
	t.Helper()
	b, err := readBundle(t, filepath.Join(dist, imageBundle), public)
	if err != nil {
		return err
	}
	payload, err := open(public, b.DSSEEnvelope)
	if err != nil {
		return err
	}
	want := `{"_type":"https://in-toto.io/Statement/v1","predicate":{},"predicateType":"https://sigstore.dev/cosign/sign/v1","subject":[{"digest":{"sha256":"` +
		strings.TrimPrefix(digest, "sha256:") + `"}}]}`
	if string(payload) != want {
		return fmt.Errorf("signed is %s, not %s", payload, want)
	}
	return nil
}

// open returns what a DSSE envelope with an in-toto statement has, if it is signed.
func open(public *ecdsa.PublicKey, data []byte) ([]byte, error) {
	var envelope struct {
		PayloadType string `json:"payloadType"`
		Payload     []byte `json:"payload"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   string `json:"sig"`
		} `json:"signatures"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&envelope); err != nil {
		return nil, err
	}
	if len(envelope.Signatures) != 1 || envelope.PayloadType != "application/vnd.in-toto+json" {
		return nil, fmt.Errorf("the envelope is %v", envelope)
	}
	// The encoding that is signed, of the DSSE protocol.
	signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(envelope.Payload), envelope.Payload)
	return envelope.Payload, verifySignature(public, []byte(signed), envelope.Signatures[0].Sig)
}

func verifySignature(public *ecdsa.PublicKey, content []byte, signature string) error {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	if !ecdsa.VerifyASN1(public, sum[:], raw) {
		return errors.New("the signature is wrong")
	}
	return nil
}

// descriptor is what the OCI image specification calls so, and the manifest it names, in
// the order of that.
type descriptor struct {
	SchemaVersion int               `json:"schemaVersion,omitempty"`
	MediaType     string            `json:"mediaType"`
	Digest        string            `json:"digest,omitempty"`
	Size          int64             `json:"size,omitempty"`
	Platform      *platform         `json:"platform,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// verifyImage returns the digest of the image, whose signature has to be in the place
// where cosign looks for it.
func verifyImage(t *testing.T, dist string, public *ecdsa.PublicKey) (string, error) {
	t.Helper()
	var index, signatures, manifest descriptor
	if err := json.Unmarshal(untar(t, filepath.Join(dist, imageFile))["index.json"], &index); err != nil {
		return "", err
	}
	files := untar(t, filepath.Join(dist, imageSignatureFile))
	if err := json.Unmarshal(files["index.json"], &signatures); err != nil {
		return "", err
	}
	digest, found := index.Manifests[0].Digest, signatures.Manifests[0]
	tag := strings.ReplaceAll(digest, ":", "-") + ".sig"
	if got := found.Annotations["org.opencontainers.image.ref.name"]; got != tag {
		return "", fmt.Errorf("the signature has the tag %s, not %s", got, tag)
	}
	if got := found.Annotations["io.containerd.image.name"]; got != imageName+":"+tag {
		return "", fmt.Errorf("the signature is called %s", got)
	}
	data, err := blob(files, found.Digest)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return "", err
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
		return "", fmt.Errorf("the signature has the layers %v", manifest.Layers)
	}
	payload, err := blob(files, manifest.Layers[0].Digest)
	if err != nil {
		return "", err
	}
	want := `{"critical":{"identity":{"docker-reference":"` + imageName + `"},"image":{"docker-manifest-digest":"` + digest +
		`"},"type":"cosign container image signature"},"optional":null}`
	if string(payload) != want {
		return "", fmt.Errorf("signed is %s, not %s", payload, want)
	}
	return digest, verifySignature(public, payload, manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
}

// blob returns a blob of an image layout, which has to have the digest that it is found by.
func blob(files map[string][]byte, digest string) ([]byte, error) {
	data := files["blobs/"+strings.ReplaceAll(digest, ":", "/")]
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); got != digest {
		return nil, fmt.Errorf("the blob %s has the digest %s", digest, got)
	}
	return data, nil
}

func verifyProvenance(t *testing.T, dist string, public *ecdsa.PublicKey, imageDigest string) error {
	t.Helper()
	payload, err := open(public, get(t, filepath.Join(dist, provenanceFile)))
	if err != nil {
		return err
	}
	bundled, err := readBundle(t, filepath.Join(dist, provenanceBundle), public)
	if err != nil {
		return err
	}
	same, err := open(public, bundled.DSSEEnvelope)
	if err != nil {
		return fmt.Errorf("its bundle: %w", err)
	}
	if !bytes.Equal(same, payload) {
		return fmt.Errorf("its bundle has %s", same)
	}
	type resource struct {
		Name   string            `json:"name"`
		URI    string            `json:"uri"`
		Digest map[string]string `json:"digest"`
	}
	var statement struct {
		Type          string     `json:"_type"`
		PredicateType string     `json:"predicateType"`
		Subject       []resource `json:"subject"`
		Predicate     struct {
			BuildDefinition struct {
				BuildType            string         `json:"buildType"`
				ExternalParameters   map[string]any `json:"externalParameters"`
				ResolvedDependencies []resource     `json:"resolvedDependencies"`
			} `json:"buildDefinition"`
			RunDetails struct {
				Builder struct {
					ID string `json:"id"`
				} `json:"builder"`
			} `json:"runDetails"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		return err
	}
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" {
		return fmt.Errorf("it is a %s of %s", statement.Type, statement.PredicateType)
	}
	subjects := map[string]string{}
	for _, subject := range statement.Subject {
		subjects[subject.Name] = subject.Digest["sha256"]
	}
	want := map[string]string{imageName: strings.TrimPrefix(imageDigest, "sha256:")}
	for _, file := range []string{chartFile, imageFile, "install.yaml"} {
		want[file] = fmt.Sprintf("%x", sha256.Sum256(get(t, filepath.Join(dist, file))))
	}
	if !maps.Equal(subjects, want) {
		return fmt.Errorf("it is about %v, not %v", subjects, want)
	}
	definition := statement.Predicate.BuildDefinition
	if sources := definition.ResolvedDependencies; len(sources) != 1 || sources[0].Digest["gitCommit"] != commit || !strings.HasPrefix(sources[0].URI, "git+https://") {
		return fmt.Errorf("it was built from %v", sources)
	}
	if definition.ExternalParameters["version"] != "v0.1.0" || definition.ExternalParameters["image"] != imageName {
		return fmt.Errorf("it was built with %v", definition.ExternalParameters)
	}
	page, err := os.ReadFile("../docs/verify.md")
	if err != nil {
		return err
	}
	for _, uri := range []string{definition.BuildType, statement.Predicate.RunDetails.Builder.ID} {
		_, anchor, _ := strings.Cut(uri, "docs/verify.md#")
		if anchor == "" || !strings.Contains(strings.ToLower(string(page)), "## "+strings.ReplaceAll(anchor, "-", " ")) {
			return fmt.Errorf("%s is not explained in docs/verify.md", uri)
		}
	}
	return nil
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("PRIVATE KEY", der)
}

func inPEM(kind string, content []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

func publicKey(t *testing.T, file string) *ecdsa.PublicKey {
	t.Helper()
	block, _ := pem.Decode(get(t, file))
	if block == nil || block.Type != "PUBLIC KEY" {
		t.Fatalf("%s is no public key in PEM", file)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ecdsa.PublicKey)
}

// untar returns the files of an archive by name.
func untar(t *testing.T, file string) map[string][]byte {
	t.Helper()
	files, reader := map[string][]byte{}, tar.NewReader(bytes.NewReader(get(t, file)))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// content returns the files of a directory by name.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		files[entry.Name()] = string(get(t, filepath.Join(dir, entry.Name())))
	}
	return files
}

func get(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
