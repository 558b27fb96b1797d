package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

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
// once, where it has it first, and its path.
func duplicateKeys(path string, node *yamlv3.Node, report func(key, first *yamlv3.Node, path string)) {
	if node == nil {
		return
	}
	if node.Kind != yamlv3.MappingNode {
		for i, item := range node.Content {
			duplicateKeys(fmt.Sprintf("%s[%d]", path, i), item, report)
		}
		return
	}
	first := map[string]*yamlv3.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		below := strings.TrimPrefix(path+"."+key.Value, ".")
		duplicateKeys(below, node.Content[i+1], report)
		if key.Kind != yamlv3.ScalarNode || key.Tag == "!!merge" {
			continue
		}
		if earlier, ok := first[key.Value]; ok {
			report(key, earlier, below)
		} else {
			first[key.Value] = key
		}
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
