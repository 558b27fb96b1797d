package hostunits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ensure gives the file this content and mode unless it has them.
func ensure(path string, mode fs.FileMode, content []byte) (changed bool, err error) {
	if has(path, mode, content) {
		return false, nil
	}
	return true, replace(path, mode, bytes.NewReader(content))
}

// has reports whether the file has this content and mode.
func has(path string, mode fs.FileMode, content []byte) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != mode || info.Size() != int64(len(content)) {
		return false
	}
	present, err := os.ReadFile(path)
	return err == nil && bytes.Equal(present, content)
}

// replace gives the file this content and mode so that at any time, also after a
// loss of power or on a full disk, it is either the old or the new one. Directories
// are made, and what an earlier call has left that was killed is removed.
func replace(path string, mode fs.FileMode, content io.Reader) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	dir, base := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := removeLeftovers(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, leftover(base)+"*")
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.Remove(f.Name()); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// leftover is what the name of a file begins with that is not complete yet.
func leftover(base string) string { return "." + base + "." }

func removeLeftovers(path string) error {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), leftover(base)) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// syncDir makes a rename last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// equal reports whether two files have the same content.
func equal(a, b string) (bool, error) {
	first, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = first.Close() }() // was only read
	second, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer func() { _ = second.Close() }() // was only read
	var blocks [2][64 << 10]byte
	for {
		n, err := io.ReadFull(first, blocks[0][:])
		m, otherErr := io.ReadFull(second, blocks[1][:])
		switch {
		case !bytes.Equal(blocks[0][:n], blocks[1][:m]):
			return false, nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.Is(otherErr, err), nil
		case err != nil || otherErr != nil:
			return false, errors.Join(err, otherErr)
		}
	}
}
