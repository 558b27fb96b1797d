package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// syntaxError is text that is not YAML.
type syntaxError struct {
	line    int // of the document, from 1
	message string
}

// decode reads a document the way the API server does: YAML 1.1, integers
// kept. An empty document gives nil.
func decode(data []byte) (any, *syntaxError) {
	if line, bad := notUTF8(data); line > 0 {
		return nil, &syntaxError{line, fmt.Sprintf("invalid YAML: the byte 0x%X is not UTF-8; save the file as UTF-8", bad)}
	}
	converted, err := toJSON(data)
	if err != nil {
		return nil, newSyntaxError(data, err)
	}
	var value any
	if _, err := kjson.UnmarshalStrict(converted, &value); err != nil {
		return nil, newSyntaxError(data, err)
	}
	return value, nil
}

// toJSON converts YAML to JSON and leaves JSON as it is.
func toJSON(data []byte) ([]byte, error) {
	if json.Valid(data) {
		return data, nil
	}
	return yaml.YAMLToJSON(data)
}

// parseTree returns the root of the document's node tree, which knows the
// place of everything, and nil where there is none.
func parseTree(data []byte) *yamlv3.Node {
	if json.Valid(data) {
		// Unlike JSON, YAML has no tabs between tokens; inside strings JSON
		// has none.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(data, &root); err != nil || len(root.Content) == 0 {
		return nil
	}
	return root.Content[0]
}

var lineInError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// notUTF8 returns the first line, from 1, with a byte that is not UTF-8, and that byte; 0
// if there is none, or if the text says by its first bytes that it is UTF-16.
func notUTF8(data []byte) (line int, bad byte) {
	if bytes.HasPrefix(data, []byte("\xFF\xFE")) || bytes.HasPrefix(data, []byte("\xFE\xFF")) {
		return 0, 0
	}
	line = 1
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			return line, data[at]
		case r == '\n':
			line++
		}
		at += size
	}
	return 0, 0
}

// newSyntaxError finds the line of a conversion error and explains tabs, the
// most frequent one.
func newSyntaxError(data []byte, err error) *syntaxError {
	// The parser that keeps places counts lines better.
	var root yamlv3.Node
	if better := yamlv3.Unmarshal(data, &root); better != nil {
		err = better
	}
	text := err.Error()
	result := &syntaxError{line: 1, message: "invalid YAML: " + lineInError.ReplaceAllString(text, "")}
	if match := lineInError.FindStringSubmatch(text); match != nil && match[1] != "" {
		result.line, _ = strconv.Atoi(match[1])
		if strings.Contains(text, "did not find expected") {
			result.line++ // the parser, unlike the scanner, counts from 0
			result.line = lineThatEnds(data, result.line, text)
		}
	}
	if line := firstTabIndent(data); line > 0 && strings.Contains(text, "cannot start any token") {
		result.line = line
		result.message = "invalid YAML: the line is indented with a tab; only spaces are accepted"
	}
	return result
}

// lineThatEnds returns the line with which an error comes up, no earlier than from: of a
// mapping or a list that is not right, the parser gives the line where that begins.
func lineThatEnds(data []byte, from int, text string) int {
	var ends []int
	end := 0
	for line := range bytes.Lines(data) {
		end += len(line)
		ends = append(ends, end)
	}
	if from < 1 || from > len(ends) {
		return from
	}
	ends = ends[from-1:]
	// Once it has come up, it stays, whatever follows.
	more := sort.Search(len(ends), func(i int) bool {
		var root yamlv3.Node
		err := yamlv3.Unmarshal(data[:ends[i]], &root)
		return err != nil && err.Error() == text
	})
	if more == len(ends) {
		return from
	}
	return from + more
}

// firstTabIndent returns the first line, from 1, that has a tab in its
// indentation, and 0 if there is none.
func firstTabIndent(data []byte) int {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.ContainsRune(indent, '\t') {
			return number
		}
	}
	return 0
}
