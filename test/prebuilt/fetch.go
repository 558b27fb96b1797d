package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// releasesURL is where Kubernetes publishes its programs, each with its SHA-256
// beside it.
const releasesURL = "https://dl.k8s.io/release"

// archived are the programs that the archives of the index hold.
var archived = []string{"etcd", "kube-apiserver", "kubectl"}

// releaseFile is the file in a directory of programs that names the release that
// was wanted and the one that they are of.
const releaseFile = "release"

// request says which programs are wanted.
type request struct {
	kubernetes string // the release
	platform   string
	programs   []string
	dir        string
	log        io.Writer
}

// fetch makes the directory hold the programs, all of one release. What is there
// already is not downloaded again; when all is there, nothing is asked for. A
// failed download leaves the directory as it was. Two must not run at once.
func (r request) fetch(ctx context.Context, from source) error {
	release, missing := r.present()
	if len(missing) == 0 {
		return nil
	}
	began := time.Now()
	text, err := from.text(ctx, indexURL)
	if err != nil {
		return err
	}
	x, err := parseIndex(text)
	if err != nil {
		return err
	}
	chosen, archive, err := x.pick(r.kubernetes, r.platform)
	if err != nil {
		return err
	}
	if chosen != release {
		missing = r.programs
	}

	_, _ = fmt.Fprintf(r.log, "controlplane: downloading Kubernetes %s: %s\n", chosen, strings.Join(missing, ", "))
	staging := r.dir + ".new"
	if err := errors.Join(os.RemoveAll(staging), os.MkdirAll(staging, 0o755)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }()
	size, err := download(ctx, from, staging, chosen, r.platform, archive, missing)
	if err != nil {
		return err
	}
	if err := r.install(staging, chosen, chosen == release); err != nil {
		return err
	}
	other := ""
	if chosen != r.kubernetes {
		other = fmt.Sprintf(", the index has no %s", r.kubernetes)
	}
	_, _ = fmt.Fprintf(r.log, "controlplane: downloaded Kubernetes %s%s (%d MB in %s)\n",
		chosen, other, size>>20, time.Since(began).Round(time.Second))
	return nil
}

// present returns the release of the programs in the directory, and the programs
// that are missing there; all are when it holds what was made for another wish.
func (r request) present() (release string, missing []string) {
	text, err := os.ReadFile(filepath.Join(r.dir, releaseFile))
	words := strings.Fields(string(text))
	if err != nil || len(words) != 2 || words[0] != r.kubernetes {
		return "", r.programs
	}
	for _, program := range r.programs {
		if _, err := os.Stat(filepath.Join(r.dir, program)); err != nil {
			missing = append(missing, program)
		}
	}
	return words[1], missing
}

// install moves programs to their place, beside those that are there or in their
// stead.
func (r request) install(staging, release string, beside bool) error {
	err := os.WriteFile(filepath.Join(staging, releaseFile), []byte(r.kubernetes+" "+release+"\n"), 0o644)
	if err != nil {
		return err
	}
	if !beside {
		return errors.Join(os.RemoveAll(r.dir), os.Rename(staging, r.dir))
	}
	files, err := os.ReadDir(staging)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Rename(filepath.Join(staging, file.Name()), filepath.Join(r.dir, file.Name())); err != nil {
			return err
		}
	}
	return nil
}

// download writes the programs to dir and returns how many bytes were sent.
func download(ctx context.Context, from source, dir, release, platform string, a archive, programs []string) (sent int64, err error) {
	var packed []string
	for _, program := range programs {
		if slices.Contains(archived, program) {
			packed = append(packed, program)
			continue
		}
		size, err := downloadProgram(ctx, from, dir, path.Join(release, "bin", platform, program))
		if err != nil {
			return 0, err
		}
		sent += size
	}
	if len(packed) == 0 {
		return sent, nil
	}
	tarball := filepath.Join(dir, ".archive")
	size, err := from.file(ctx, a.URL, tarball, sha512.New(), a.Hash)
	if err != nil {
		return 0, err
	}
	if err := unpack(tarball, dir, packed); err != nil {
		return 0, fmt.Errorf("unpacking %s: %w", a.URL, err)
	}
	return sent + size, os.Remove(tarball)
}

// downloadProgram writes one program of a Kubernetes release to dir.
func downloadProgram(ctx context.Context, from source, dir, name string) (int64, error) {
	published := releasesURL + "/" + name
	text, err := from.text(ctx, published+".sha256")
	if err != nil {
		return 0, err
	}
	sum, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ") // a file name may follow
	target := filepath.Join(dir, path.Base(name))
	size, err := from.file(ctx, published, target, sha256.New(), sum)
	if err != nil {
		return 0, err
	}
	return size, os.Chmod(target, 0o755)
}

// unpack writes the programs that the archive holds, in whatever folder, to dir.
func unpack(tarball, dir string, programs []string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	left := slices.Clone(programs)
	for entries := tar.NewReader(z); len(left) > 0; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("no %s in it", strings.Join(left, ", "))
		}
		if err != nil {
			return err
		}
		i := slices.Index(left, path.Base(entry.Name))
		if i < 0 || entry.Typeflag != tar.TypeReg {
			continue
		}
		if err := write(filepath.Join(dir, left[i]), entries); err != nil {
			return err
		}
		left = slices.Delete(left, i, i+1)
	}
	return nil
}

func write(program string, from io.Reader) error {
	f, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
