package main

import (
	"archive/tar"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/nodemend/nodemend/tools/release/oci"
)

// imageDigest returns the digest of the one index in an OCI archive: that of the image
// in a registry.
func imageDigest(file string) (v1.Hash, error) {
	archive, err := os.Open(file)
	if err != nil {
		return v1.Hash{}, err
	}
	defer archive.Close()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return v1.Hash{}, fmt.Errorf("%s is no OCI archive: it has no index.json", file)
		}
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", file, err)
		}
		if header.Name != "index.json" {
			continue
		}
		index, err := v1.ParseIndexManifest(reader)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("index.json of %s: %w", file, err)
		}
		if len(index.Manifests) != 1 {
			return v1.Hash{}, fmt.Errorf("index.json of %s names %d images, and has to name one", file, len(index.Manifests))
		}
		return index.Manifests[0].Digest, nil
	}
}

// imageSignature returns the signature of an image as an OCI archive: an image beside the
// signed one, with a tag made of its digest. See cosign's specs/SIGNATURE_SPEC.md.
func (r release) imageSignature(key *ecdsa.PrivateKey, digest v1.Hash) ([]byte, error) {
	payload, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": r.image},
			"image":    map[string]string{"docker-manifest-digest": digest.String()},
			"type":     "cosign container image signature",
		},
		"optional": nil,
	})
	if err != nil {
		return nil, err
	}
	signed, err := signature(key, payload)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": signed},
	})
	if err != nil {
		return nil, err
	}
	return oci.Archive(fmt.Sprintf("%s:%s-%s.sig", r.image, digest.Algorithm, digest.Hex), image, r.time)
}
