// Command push pushes OCI archives of a release to a repository of a registry, each under the
// tag that it names itself, and prints their references by digest.
//
//	push ghcr.io/nodemend/nodemend dist/nodemend-v1-image.tar dist/nodemend-v1-image-signature.tar
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
		return errors.New("give a repository, such as ghcr.io/nodemend/nodemend, and OCI archives")
	}
	repository, err := name.NewRepository(args[0], name.StrictValidation)
	if err != nil {
		return err
	}
	for _, archive := range args[1:] {
		if err := push(ctx, repository, archive); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
	return nil
}

// push pushes all that an archive has.
func push(ctx context.Context, repository name.Repository, archive string) (err error) {
	dir, err := os.MkdirTemp("", "nodemend-push-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(archive, dir); err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("it is no OCI archive: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, content := range manifest.Manifests {
		tag, err := name.NewTag(repository.Name()+":"+content.Annotations["org.opencontainers.image.ref.name"], name.StrictValidation)
		if err != nil {
			return err
		}
		if err := write(ctx, tag, index, content); err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", tag, content.Digest)
	}
	return nil
}

func write(ctx context.Context, tag name.Tag, index v1.ImageIndex, content v1.Descriptor) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
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
