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
	digest string
	// copied is the copy when it was last found to be one, or nil.
	copied fs.FileInfo
}

func newProgram(source string) (*program, error) {
	sum, err := digest(source)
	if err != nil {
		return nil, fmt.Errorf("reading the program to install: %w", err)
	}
	return &program{source: source, digest: sum}, nil
}

// ensure copies the program to path unless it is there. It is read again only if it
// looks different from the last time.
func (p *program) ensure(path string) (changed bool, err error) {
	present, err := os.Lstat(path)
	if err == nil && present.Mode() == programMode {
		if p.copied != nil && same(present, p.copied) {
			return false, nil
		}
		if sum, err := digest(path); err == nil && sum == p.digest {
			p.copied = present
			return false, nil
		}
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
