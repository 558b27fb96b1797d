// Command push pushes OCI archives of a release to a repository of a registry, each under the
// tag that it names itself, and Sigstore bundles, each as an artifact that refers to the first
// archive's image. It prints their references by digest.
//
//	push ghcr.io/nodemend/nodemend dist/nodemend-v1-image.tar dist/nodemend-v1-image-signature.tar \
//	  dist/nodemend-v1-image.sigstore.json dist/nodemend-v1.intoto.sigstore.json
//
// Credentials are those of "docker login", "podman login" or "helm registry login". A registry
// on loopback is spoken to without TLS.
package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("give a repository, such as ghcr.io/nodemend/nodemend, an OCI archive of an image, and what else goes with it: archives and bundles (.sigstore.json)")
	}
	repository, err := name.NewRepository(args[0], name.StrictValidation)
	if err != nil {
		return err
	}
	var image v1.Descriptor
	for _, file := range args[1:] {
		if strings.HasSuffix(file, ".sigstore.json") {
			err = attach(ctx, repository, image, file)
		} else {
			var pushed v1.Descriptor
			if pushed, err = push(ctx, repository, file); image.Size == 0 {
				image = pushed
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// push pushes the image that an archive has, and returns what it is.
func push(ctx context.Context, repository name.Repository, archive string) (image v1.Descriptor, err error) {
	dir, err := os.MkdirTemp("", "nodemend-push-")
	if err != nil {
		return image, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(archive, dir); err != nil {
		return image, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return image, fmt.Errorf("it is no OCI archive: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return image, err
	}
	if len(manifest.Manifests) != 1 {
		return image, fmt.Errorf("it has %d images, and has to have one", len(manifest.Manifests))
	}
	image = manifest.Manifests[0]
	tag, err := name.NewTag(repository.Name()+":"+image.Annotations["org.opencontainers.image.ref.name"], name.StrictValidation)
	if err != nil {
		return image, err
	}
	if err := write(tag, index, image, options(ctx)); err != nil {
		return image, err
	}
	fmt.Printf("%s@%s\n", tag, image.Digest)
	return image, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

func write(tag name.Tag, index v1.ImageIndex, content v1.Descriptor, options []remote.Option) error {
	if content.MediaType.IsIndex() {
		images, err := index.ImageIndex(content.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(tag, images, options...)
	}
	image, err := index.Image(content.Digest)
	if err != nil {
		return err
	}
	return remote.Write(tag, image, options...)
}

// unpack unpacks the files of an archive into a directory.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // was only read
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no OCI archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o700); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, reader); err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
}
