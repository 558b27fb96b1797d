package offline

import (
	"fmt"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// place is a line and a column of a document, both from 1.
type place struct{ line, column int }

func placeOf(node *yamlv3.Node) place { return place{node.Line, node.Column} }

// tree finds fields in the text of one object. The zero tree has one place,
// the beginning of the document.
type tree struct{ root *yamlv3.Node }

// field returns the place of a field, given as the API server writes it:
// "spec.steps[0].command", map keys after a dot or in brackets. That is the
// value where it begins on the line of its key, and the key otherwise. Of a
// field that is not there, the place of the nearest parent is returned.
func (t tree) field(path string) place {
	key, value, _ := t.locate(path)
	if key == nil || value == nil {
		return place{1, 1}
	}
	if key.Line == value.Line {
		return placeOf(value)
	}
	return placeOf(key)
}

// key returns the place of the field's key, or of the nearest parent's.
func (t tree) key(path string) place {
	key, _, _ := t.locate(path)
	if key == nil {
		return place{1, 1}
	}
	return placeOf(key)
}

// plainScalar returns the field's value as it is written in the text, if it
// is there and neither a mapping nor a list nor in quotes.
func (t tree) plainScalar(path string) (string, bool) {
	_, value, found := t.locate(path)
	if !found || value.Kind != yamlv3.ScalarNode || value.Style != 0 {
		return "", false
	}
	return value.Value, true
}

// locate returns the key and the value of the field, or of its nearest
// parent if it is not found. The root and the items of a list are their own
// keys.
func (t tree) locate(path string) (key, value *yamlv3.Node, found bool) {
	if t.root == nil {
		return nil, nil, false
	}
	key, value = t.root, t.root
	for path != "" {
		nextKey, nextValue, rest := step(value, path)
		if nextKey == nil {
			return key, value, false
		}
		key, value, path = nextKey, nextValue, rest
	}
	return key, value, true
}

// step takes the first element off a path and returns its key (for a list the
// item itself), its value and the remaining path; nil if it is not there.
func step(node *yamlv3.Node, path string) (key, value *yamlv3.Node, rest string) {
	switch node = resolve(node); node.Kind {
	case yamlv3.SequenceNode:
		for i, item := range node.Content {
			if rest, ok := strings.CutPrefix(path, fmt.Sprintf("[%d]", i)); ok {
				return item, resolve(item), rest
			}
		}
	case yamlv3.MappingNode:
		return stepIntoMapping(node, strings.TrimPrefix(path, "."))
	}
	return nil, nil, ""
}

// stepIntoMapping chooses the longest key that the path begins with, since
// keys may contain dots.
func stepIntoMapping(node *yamlv3.Node, path string) (key, value *yamlv3.Node, rest string) {
	var merged []*yamlv3.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		candidate, its := node.Content[i], node.Content[i+1]
		if candidate.Tag == "!!merge" {
			merged = append(merged, its)
			continue
		}
		after, ok := afterKey(path, candidate.Value)
		if ok && (key == nil || len(candidate.Value) >= len(key.Value)) {
			key, value, rest = candidate, resolve(its), after
		}
	}
	if key != nil {
		return key, value, rest
	}
	for _, source := range merged {
		// One level is enough: a merge that merges again is rare, and the
		// parent's place is returned for it.
		if source = resolve(source); source.Kind != yamlv3.MappingNode {
			continue
		}
		for i := 0; i+1 < len(source.Content); i += 2 {
			if after, ok := afterKey(path, source.Content[i].Value); ok {
				return source.Content[i], resolve(source.Content[i+1]), after
			}
		}
	}
	return nil, nil, ""
}

// afterKey returns what follows the key in the path.
func afterKey(path, key string) (string, bool) {
	if rest, ok := strings.CutPrefix(path, "["+key+"]"); ok {
		return rest, true
	}
	rest, ok := strings.CutPrefix(path, key)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// resolve follows an alias to what it stands for.
func resolve(node *yamlv3.Node) *yamlv3.Node {
	if node.Kind == yamlv3.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}
