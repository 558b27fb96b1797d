// Command sign signs a release with the key in COSIGN_PRIVATE_KEY, so that cosign and
// openssl can verify it. docs/verify.md says how.
//
//	sign -dist dist -image ghcr.io/nodemend/nodemend -version v0.1.0 -commit SHA
//	sign -public >cosign.pub
//
// The same release and key give the same bytes.
package main

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const usage = `sign signs a release with the key in COSIGN_PRIVATE_KEY. To what is in DIST, with its
SHA256SUMS, it adds

	nodemend-VERSION-image-signature.tar   the signature of the image, as cosign stores it, as an OCI archive
	nodemend-VERSION.intoto.jsonl          the provenance of all files, an in-toto statement in a DSSE envelope
	nodemend-VERSION.tgz.sig               the signature of the chart
	SHA256SUMS.sig                         the signature of the checksums
	….sigstore.json                        the same four as Sigstore bundles, which cosign 3 prefers
	cosign.pub                             the public key

COSIGN_PRIVATE_KEY is ` + accepted + `
COSIGN_PASSWORD is the password of a key of cosign generate-key-pair.
SOURCE_DATE_EPOCH is the time of the release, in seconds since 1970.

`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

// release is what is signed.
type release struct {
	dist, image, version, commit string
	time                         time.Time
}

func run() error {
	var r release
	flag.StringVar(&r.dist, "dist", "", "`directory` of the release")
	flag.StringVar(&r.image, "image", "", "`name` of the image, without its tag")
	flag.StringVar(&r.version, "version", "", "`version` of the release, such as v0.1.0")
	flag.StringVar(&r.commit, "commit", "", "git `commit` that it was built from")
	public := flag.Bool("public", false, "only print the public key")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	key, err := privateKey(os.Getenv("COSIGN_PRIVATE_KEY"), os.Getenv("COSIGN_PASSWORD"))
	if err != nil {
		return err
	}
	publicPEM, err := publicKey(key)
	if err != nil {
		return err
	}
	if *public {
		_, err := os.Stdout.Write(publicPEM)
		return err
	}
	if r.dist == "" || r.image == "" || r.version == "" || r.commit == "" || flag.NArg() != 0 {
		return errors.New("give -dist, -image, -version and -commit, or -public")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is the time of the release, in seconds since 1970: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	return r.sign(key, publicPEM)
}

// sign adds all signatures to the release, that of the checksums last.
func (r release) sign(key *ecdsa.PrivateKey, publicPEM []byte) error {
	sums, files, err := checksums(r.dist)
	if err != nil {
		return err
	}
	imageFile := "nodemend-" + r.version + "-image.tar"
	digest, err := imageDigest(filepath.Join(r.dist, imageFile))
	if err != nil {
		return err
	}
	chartFile := "nodemend-" + strings.TrimPrefix(r.version, "v") + ".tgz"
	chart, err := os.ReadFile(filepath.Join(r.dist, chartFile))
	if err != nil {
		return err
	}
	chartSignature, err := signature(key, chart)
	if err != nil {
		return err
	}
	chartBundle, err := bundleOfFile(key, chart, chartSignature)
	if err != nil {
		return err
	}
	imageSignature, err := r.imageSignature(key, digest)
	if err != nil {
		return err
	}
	imageBundle, err := bundleOfImage(key, digest.Hex)
	if err != nil {
		return err
	}
	provenance, err := r.provenance(key, append(files, subject(r.image, digest.Hex)))
	if err != nil {
		return err
	}
	provenanceLine, err := json.Marshal(provenance)
	if err != nil {
		return err
	}
	provenanceBundle, err := bundle(key, "dsseEnvelope", provenance)
	if err != nil {
		return err
	}
	sumsSignature, err := signature(key, sums)
	if err != nil {
		return err
	}
	sumsBundle, err := bundleOfFile(key, sums, sumsSignature)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"cosign.pub", publicPEM},
		{"nodemend-" + r.version + "-image-signature.tar", imageSignature},
		{"nodemend-" + r.version + "-image.sigstore.json", imageBundle},
		{"nodemend-" + r.version + ".intoto.jsonl", append(provenanceLine, '\n')},
		{"nodemend-" + r.version + ".intoto.sigstore.json", provenanceBundle},
		{chartFile + ".sig", []byte(chartSignature)},
		{chartFile + ".sigstore.json", chartBundle},
		{"SHA256SUMS.sigstore.json", sumsBundle},
		{"SHA256SUMS.sig", []byte(sumsSignature)},
	} {
		if err := write(filepath.Join(r.dist, file.name), file.content); err != nil {
			return err
		}
	}
	return nil
}

// checksums returns SHA256SUMS of a directory and the files in it, each of which has to
// have the checksum that is said there.
func checksums(dir string) (sums []byte, files []map[string]any, err error) {
	file := filepath.Join(dir, "SHA256SUMS")
	sums, err = os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(sums)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || name != filepath.Base(name) {
			return nil, nil, fmt.Errorf("%s has the line %q, which is not one of sha256sum: make the release again", file, line)
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, nil, err
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sum {
			return nil, nil, fmt.Errorf("%s has the checksum %s, but %s says %s: make the release again", filepath.Join(dir, name), got, file, sum)
		}
		files = append(files, subject(name, sum))
	}
	return sums, files, nil
}

// signature returns the signature of a content as cosign writes that of a blob: base64
// of ASN.1.
func signature(key *ecdsa.PrivateKey, content []byte) (string, error) {
	raw, err := sign(key, content)
	return base64.StdEncoding.EncodeToString(raw), err
}

// write writes a file, or nothing.
func write(name string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), ".sign-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(content)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
