package hostunits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const programMode = 0o755

// program is the executable that is copied to the host.
type program struct {
	source string
	// copied is the copy when it was last found to be one, or nil.
	copied fs.FileInfo
}

// isAt reports whether the program is at path. It is read again only if it looks
// different from the last time. To compare it is cheaper than a digest, by far where the
// processor has no instructions for that.
func (p *program) isAt(path string) bool {
	present, err := os.Lstat(path)
	if err != nil || present.Mode() != programMode {
		return false
	}
	if p.copied != nil && same(present, p.copied) {
		return true
	}
	if is, err := equal(p.source, path); err != nil || !is {
		return false
	}
	p.copied = present
	return true
}

// ensure copies the program to path unless it is there.
func (p *program) ensure(path string) (changed bool, err error) {
	if p.isAt(path) {
		return false, nil
	}
	source, err := os.Open(p.source)
	if err != nil {
		return false, fmt.Errorf("reading the program to install: %w", err)
	}
	defer func() { _ = source.Close() }() // was only read
	if err := replace(path, programMode, source); err != nil {
		if errors.Is(err, syscall.EROFS) {
			err = fmt.Errorf("%w; choose a directory of the host that can be written with --bin-dir", err)
		}
		return false, err
	}
	p.copied = nil
	return true, nil
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
