// Package strictyaml reads configuration files so that every mistake in one is
// found at once and named with its line.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Decode reads data into out, which keeps what the file leaves out. A field that
// out does not have is a mistake, as is a second document. Each mistake begins
// with name and the line. The root of what was read is for
// Line; it is nil if the file is empty or is no YAML.
func Decode(name string, data []byte, out any) (root *yaml.Node, mistakes []error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)

	var typeErr *yaml.TypeError
	switch err := decoder.Decode(out); {
	case errors.As(err, &typeErr):
		for _, text := range typeErr.Errors {
			mistakes = append(mistakes, fmt.Errorf("%s: %s", name, explain(text)))
		}
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, []error{syntaxMistake(name, data, err)}
	}
	second := &yaml.Node{}
	if err := decoder.Decode(second); !errors.Is(err, io.EOF) {
		line := second.Line
		if err != nil {
			line, _ = LineOf(data, err)
		}
		mistakes = append(mistakes, fmt.Errorf("%s: line %d: only one YAML document is accepted in this file", name, line))
	}

	root = &yaml.Node{}
	if err := yaml.Unmarshal(data, root); err != nil {
		return nil, []error{syntaxMistake(name, data, err)}
	}
	return root, mistakes
}

var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	noDuration   = regexp.MustCompile("cannot unmarshal !!\\S+ `(.*)` into time.Duration")
	noFields     = regexp.MustCompile("cannot unmarshal !!\\S+ (`.*` )?into map\\S+")
)

// explain puts the decoder's words into those of people who don't read Go.
func explain(text string) string {
	text = unknownField.ReplaceAllString(text, `unknown field "$1"`)
	text = noFields.ReplaceAllString(text, "fields with values are expected here, as name: value")
	return noDuration.ReplaceAllString(text, `"$1" is not a duration: accepted are numbers with units, such as 90s or 1h30m`)
}

// Line returns the line of the value at path, or of the last part of path that
// the document has. A part is the name of a field or the index of an entry.
func Line(root *yaml.Node, path ...string) int {
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
