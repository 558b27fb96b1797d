package detector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
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
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)

	var mistakes []error
	var typeErr *yaml.TypeError
	switch err := decoder.Decode(&config); {
	case errors.As(err, &typeErr):
		for _, text := range typeErr.Errors {
			mistakes = append(mistakes, fmt.Errorf("%s: %s", name, explain(text)))
		}
	case errors.Is(err, io.EOF):
		return config, nil // empty: all defaults
	case err != nil:
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		mistakes = append(mistakes, fmt.Errorf("%s: only one YAML document is accepted in this file", name))
	}

	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range config.problems() {
		mistakes = append(mistakes, fmt.Errorf("%s: line %d: %w", name, line(&root, p.path), p))
	}
	if len(mistakes) > 0 {
		return Config{}, errors.Join(mistakes...)
	}
	return config, nil
}

var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	noDuration   = regexp.MustCompile("cannot unmarshal !!\\S+ `(.*)` into time.Duration")
)

// explain puts the decoder's words into those of people who don't read Go.
func explain(text string) string {
	text = unknownField.ReplaceAllString(text, `unknown field "$1"`)
	return noDuration.ReplaceAllString(text, `"$1" is not a duration: accepted are numbers with units, such as 90s or 1h30m`)
}

// line returns the line of the value at path, or of the last part of path that
// the document has.
func line(root *yaml.Node, path []string) int {
	node := root
	if node.Kind == yaml.DocumentNode {
		node = node.Content[0]
	}
	found := node.Line
next:
	for _, key := range path {
		if i, err := strconv.Atoi(key); err == nil && node.Kind == yaml.SequenceNode && i < len(node.Content) {
			found, node = node.Content[i].Line, node.Content[i]
			continue next
		}
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				found, node = node.Content[i].Line, node.Content[i+1]
				continue next
			}
		}
		break
	}
	return found
}
