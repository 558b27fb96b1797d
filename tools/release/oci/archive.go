// Package oci writes OCI archives, of which the same content gives the same bytes.
package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// BundleType is the media type of a Sigstore bundle.
const BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Archive returns the image layout of an image or an index as a tar archive. Name is
// what it is called, with registry and tag.
func Archive(name string, content mutate.Appendable, made time.Time) (archive []byte, err error) {
	dir, err := os.MkdirTemp("", "nodemend-image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	_, tag, _ := strings.Cut(path.Base(name), ":")
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: content, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"io.containerd.image.name":          name, // ctr and nerdctl
		"org.opencontainers.image.ref.name": tag,  // skopeo and podman
	}}})
	if _, err := layout.Write(dir, index); err != nil {
		return nil, err
	}
	return Tar(dir, made)
}

// Tar returns an archive of a directory, in which everything belongs to root and was
// made at the same time.
func Tar(dir string, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error { // in lexical order
		if err != nil || file == dir {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755, ModTime: made})
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: int64(len(content)), Mode: 0o644, ModTime: made}
		if info.Mode()&0o100 != 0 {
			header.Mode = 0o755
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
