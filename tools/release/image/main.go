// Command image writes a container image as an OCI archive, without a container
// engine: static binaries on an empty base, for each architecture.
//
//	image -name ghcr.io/nodemend/nodemend:v1 -version v1 -o image.tar amd64=dist/amd64 arm64=dist/arm64
//
// Every directory is the root of the image for its architecture. The same files give
// the same bytes, with SOURCE_DATE_EPOCH as the time of all.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	specs "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/nodemend/nodemend/tools/release/oci"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("name", "", "`name` of the image, with registry and tag")
	version := flag.String("version", "", "`version` for the annotations")
	output := flag.String("o", "", "`file` to write")
	flag.Parse()
	if *name == "" || *output == "" || flag.NArg() == 0 {
		return errors.New("give -name, -o, and a directory for each architecture, such as amd64=dist/amd64")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is the time of all files, in seconds since 1970: %w", err)
	}
	b := builder{time: time.Unix(seconds, 0).UTC(), name: *name, labels: map[string]string{
		"org.opencontainers.image.title":    "nodemend",
		"org.opencontainers.image.version":  *version,
		"org.opencontainers.image.source":   "https://github.com/nodemend/nodemend",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}}
	index, err := b.index(flag.Args())
	if err != nil {
		return err
	}
	return b.write(index, *output)
}

type builder struct {
	name   string
	time   time.Time
	labels map[string]string
}

// index returns an index of an image for each architecture, ARCH=DIR.
func (b builder) index(roots []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, root := range roots {
		arch, dir, ok := strings.Cut(root, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form ARCH=DIR", root)
		}
		image, err := b.image(arch, dir)
		if err != nil {
			return nil, fmt.Errorf("the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return asSpecified(mutate.Annotations(index, b.labels).(v1.ImageIndex))
}

// asSpecified returns an index whose fields are in the order of the OCI image
// specification's own types. Skopeo and podman write an index anew when they copy it, in
// that order, and then its digest, which is signed, is still the same.
func asSpecified(index v1.ImageIndex) (v1.ImageIndex, error) {
	raw, err := index.RawManifest()
	if err != nil {
		return nil, err
	}
	var manifest specs.Index
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, err
	}
	for i := range manifest.Manifests {
		manifest.Manifests[i].ArtifactType = "" // older ones drop it
	}
	raw, err = json.Marshal(manifest)
	return rawIndex{imageIndex: index, raw: raw}, err
}

// rawIndex is an index that is written in its own way.
type rawIndex struct {
	imageIndex
	raw []byte
}

type imageIndex = v1.ImageIndex // embedded, it must not be called as its method ImageIndex

func (i rawIndex) RawManifest() ([]byte, error) { return i.raw, nil }
func (i rawIndex) Size() (int64, error)         { return int64(len(i.raw)), nil }
func (i rawIndex) Digest() (v1.Hash, error)     { return partial.Digest(i) }

func (i rawIndex) IndexManifest() (*v1.IndexManifest, error) {
	return v1.ParseIndexManifest(bytes.NewReader(i.raw))
}

func (b builder) image(arch, dir string) (v1.Image, error) {
	content, err := oci.Tar(dir, b.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: b.time}
	config.Config.Entrypoint, config.Config.Labels = []string{"/nodemend"}, b.labels
	return mutate.ConfigFile(image, config)
}

// write writes the index as an OCI archive.
func (b builder) write(index v1.ImageIndex, output string) error {
	archive, err := oci.Archive(b.name, index, b.time)
	if err != nil {
		return err
	}
	return os.WriteFile(output, archive, 0o644)
}
