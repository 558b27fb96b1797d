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

	"github.com/nodemend/nodemend/internal/atomicfile"
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

// replace writes the file as a whole, with this content and mode. Directories are made, and what
// an earlier call has left that was killed is removed.
func replace(path string, mode fs.FileMode, content io.Reader) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = removeLeftovers(path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.Write(path, mode, content)
}

func removeLeftovers(path string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), atomicfile.Leftover(path)) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
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
