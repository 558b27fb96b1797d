package remote

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nodemend/nodemend/internal/strictyaml"
)

// Load reads the file at path. The error names every mistake in it, one a line, each with the
// file's name and line. A file that is read again while it is used is taken as a whole, or,
// with a mistake, not at all.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading which switch has the power of which node: %w", err)
	}
	return Parse(path, data)
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
