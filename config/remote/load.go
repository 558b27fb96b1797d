package remote

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/nodemend/nodemend/internal/strictyaml"
)

// Load reads the file at path. The error names every mistake in it, one a line, each with the
// file's name and line. A file that is read again while it is used is taken as a whole, or,
// with a mistake, not at all.
func Load(path string) (Config, error) {
	data, err := read(path)
	if err != nil {
		return Config{}, err
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading which switch has the power of which node: %w", err)
	}
	return data, nil
}

// Parse is Load for a file's content; name is its name in errors.
func Parse(name string, data []byte) (Config, error) {
	var c Config
	root, mistakes := strictyaml.Decode(name, data, &c)
	if root == nil && len(mistakes) == 0 {
		mistakes = append(mistakes, fmt.Errorf("%s: is empty: accepted are switches, a list, and replace", name))
	}
	if root != nil {
		c.name = name
		for _, p := range slices.Concat(emptied(root), c.problems()) {
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: %w", name, strictyaml.Line(root, p.path...), p))
		}
	}
	if len(mistakes) > 0 {
		return Config{}, errors.Join(mistakes...)
	}
	return c, nil
}

// File is a file that is read each time, and parsed when it has changed: one that names thousands of
// BMCs takes longer than to ask one of them. It is safe for concurrent use.
type File struct {
	// Path of the file.
	Path string

	mu   sync.Mutex
	data []byte // nil: nothing was parsed yet
	last Config
	err  error
}

// Load is Load of the file as it is now. Whoever gets the Config leaves what it refers to as it is.
func (f *File) Load() (Config, error) {
	data, err := read(f.Path)
	if err != nil {
		return Config{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.data == nil || !bytes.Equal(data, f.data) {
		f.last, f.err = Parse(f.Path, data)
		f.data = data
	}
	return f.last, f.err
}
