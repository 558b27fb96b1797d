package offline

import (
	"bytes"
	"strings"
)

// document is one YAML document of a file.
type document struct {
	// firstLine is the line of the file, from 1, that data begins with.
	firstLine int
	data      []byte
	// stray is what follows "---" on the line before the document, where only
	// a comment is accepted.
	stray string
}

const separator = "---"

// split cuts a file into its documents at the lines that begin with "---", as
// kubectl does.
func split(file []byte) []document {
	var documents []document
	current := document{firstLine: 1}
	lineNumber := 0
	for line := range bytes.Lines(file) {
		lineNumber++
		if !bytes.HasPrefix(line, []byte(separator)) {
			current.data = append(current.data, line...)
			continue
		}
		documents = append(documents, current)
		current = document{firstLine: lineNumber + 1}
		if rest := strings.TrimSpace(string(line[len(separator):])); rest != "" && !strings.HasPrefix(rest, "#") {
			current.stray = rest
		}
	}
	return append(documents, current)
}
