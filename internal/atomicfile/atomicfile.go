// Package atomicfile replaces files as a whole.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace gives the file at path this content, with mode 0600, as Write does. The directory is
// created with mode 0700.
func Replace(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return Write(path, 0o600, bytes.NewReader(data))
}

// Write gives the file at path this mode and content so that at any time, also after a loss of
// power or on a full disk, the file is either the old or the new one. A process that is killed
// leaves a file behind whose name begins with [Leftover].
func Write(path string, mode fs.FileMode, content io.Reader) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, Leftover(path)+"*")
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

// Leftover returns what the name of a file begins with that is not complete yet.
func Leftover(path string) string { return "." + filepath.Base(path) + "." }

// syncDir makes the rename last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
