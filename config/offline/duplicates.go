package offline

import (
	"encoding/json"
	"errors"
	"iter"
	"regexp"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// strictError returns what strict decoding holds against the document beyond
// its syntax: keys that a mapping has more than once.
func strictError(data []byte) error {
	if json.Valid(data) {
		var value map[string]any
		duplicates, _ := kjson.UnmarshalStrict(data, &value)
		return errors.Join(duplicates...)
	}
	_, err := yaml.YAMLToJSONStrict(data)
	return err
}

// duplicateKeys reports every key that a mapping of the tree has more than
// once, and where it has it first.
func duplicateKeys(node *yamlv3.Node, report func(key, first *yamlv3.Node)) {
	if node == nil {
		return
	}
	if node.Kind == yamlv3.MappingNode {
		first := map[string]*yamlv3.Node{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind != yamlv3.ScalarNode || key.Tag == "!!merge" {
				continue
			}
			if earlier, ok := first[key.Value]; ok {
				report(key, earlier)
			} else {
				first[key.Value] = key
			}
		}
	}
	for _, child := range node.Content {
		duplicateKeys(child, report)
	}
}

var mergedKey = regexp.MustCompile(`line (\d+): (key ".*" already set in map)`)

// mergedKeys returns the lines and messages of a strict error about keys that
// are repeated although the text has each once: a merge (<<) brought them.
func mergedKeys(err error) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for _, match := range mergedKey.FindAllStringSubmatch(err.Error(), -1) {
			line, _ := strconv.Atoi(match[1])
			if !yield(line, match[2]) {
				return
			}
		}
	}
}
