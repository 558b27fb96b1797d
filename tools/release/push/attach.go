package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/nodemend/nodemend/tools/release/oci"
)

// attach pushes a bundle as an artifact that refers to the image: see "Referrers" of the OCI
// distribution specification. In a registry that does not list what refers to an image, it goes
// into a list of the tag that the specification names. The same bundle is the same artifact.
func attach(ctx context.Context, repository name.Repository, image v1.Descriptor, file string) error {
	if image.Size == 0 {
		return errors.New("it has to come after the archive of the image that it is about")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	predicateType, err := predicateOf(content, image.Digest.Hex)
	if err != nil {
		return err
	}
	config, err := upload(ctx, repository, []byte("{}"), "application/vnd.oci.empty.v1+json")
	if err != nil {
		return err
	}
	bundle, err := upload(ctx, repository, content, oci.BundleType)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  oci.BundleType,
		Config:        config,
		Layers:        []v1.Descriptor{bundle},
		Subject:       &v1.Descriptor{MediaType: image.MediaType, Size: image.Size, Digest: image.Digest},
		Annotations:   map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": predicateType},
	})
	if err != nil {
		return err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	reference := repository.Digest(digest.String())
	if err := remote.Put(reference, raw(manifest), options(ctx)...); err != nil {
		return err
	}
	fmt.Printf("%s, %s\n", reference, predicateType)
	return nil
}

// upload pushes a blob, and returns what it is.
func upload(ctx context.Context, repository name.Repository, content []byte, mediaType types.MediaType) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest}, remote.WriteLayer(repository, static.NewLayer(content, mediaType), options(ctx)...)
}

// raw is a manifest as it is pushed.
type raw []byte

func (r raw) RawManifest() ([]byte, error)        { return r, nil }
func (r raw) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// predicateOf returns what a bundle says of an image, as the type of a predicate.
func predicateOf(bundle []byte, digest string) (string, error) {
	var signed struct {
		Envelope struct {
			Payload []byte `json:"payload"`
		} `json:"dsseEnvelope"`
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(bundle, &signed); err != nil {
		return "", fmt.Errorf("it is no bundle: %w", err)
	}
	if err := json.Unmarshal(signed.Envelope.Payload, &statement); err != nil {
		return "", fmt.Errorf("it is no bundle of a statement: %w", err)
	}
	for _, subject := range statement.Subject {
		if subject.Digest["sha256"] == digest {
			return statement.PredicateType, nil
		}
	}
	return "", fmt.Errorf("it is not about the image sha256:%s: sign the release again", digest)
}
