package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

var (
	withLine  = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	withAlias = regexp.MustCompile(`^(?:unknown )?anchor '(.*)' `)
)

// syntaxMistake names the line of an error of the parser.
func syntaxMistake(name string, data []byte, err error) error {
	line, text := LineOf(data, err)
	return fmt.Errorf("%s: line %d: %s", name, line, text)
}

// LineOf returns the line of an error of the parser in data, which does not always tell, and
// its text without that.
func LineOf(data []byte, err error) (line int, text string) {
	var several *yaml.TypeError
	if errors.As(err, &several) && len(several.Errors) > 0 {
		err = errors.New("yaml: " + several.Errors[0])
	}
	found := withLine.FindStringSubmatch(err.Error())
	if found == nil {
		return 1, err.Error()
	}
	text = strings.TrimPrefix(err.Error(), found[0])
	switch line, _ = strconv.Atoi(found[1]); {
	case strings.HasPrefix(text, "did not find expected"):
		line++ // unlike other lines, this is counted from 0
	case found[1] != "":
	case strings.Contains(text, "UTF-8"):
		line = firstLine(data, func(line []byte) bool { return !utf8.Valid(line) })
	case strings.Contains(text, "control characters"):
		line = firstLine(data, func(line []byte) bool {
			return bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n", r) || r == 0x7f })
		})
	case withAlias.MatchString(text):
		alias := []byte("*" + withAlias.FindStringSubmatch(text)[1])
		line = firstLine(data, func(line []byte) bool { return bytes.Contains(line, alias) })
	case strings.Contains(text, "map merge"):
		line = firstLine(data, func(line []byte) bool { return bytes.Contains(line, []byte("<<")) })
	}
	// What is missing at the end is missing on the last line.
	last := bytes.Count(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) + 1
	return max(1, min(line, last)), text
}

// firstLine is the first that is so, from 1; zero if none is.
func firstLine(data []byte, is func(line []byte) bool) (number int) {
	for line := range bytes.Lines(data) {
		number++
		if is(line) {
			return number
		}
	}
	return 0
}
