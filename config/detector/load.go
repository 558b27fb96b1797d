package detector

import (
	"errors"
	"fmt"
	"os"

	"github.com/nodemend/nodemend/internal/strictyaml"
)

// Load reads the file at path. The error names every mistake in it, one a line,
// each with the file's name and line.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the detector's configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for a file's content; name is its name in errors. A field that
// does not exist is an error, as is a second document.
func Parse(name string, data []byte) (Config, error) {
	config := Default()
	root, mistakes := strictyaml.Decode(name, data, &config)
	if root != nil {
		for _, p := range config.problems() {
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: %w", name, strictyaml.Line(root, p.path...), p))
		}
	}
	if len(mistakes) > 0 {
		return Config{}, errors.Join(mistakes...)
	}
	return config, nil
}
