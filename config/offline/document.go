package offline

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// documentCheck is the check of one document of a file.
type documentCheck struct {
	*fileCheck
	document
	// twice are the paths of keys that are there more than once.
	twice []string
}

func (d *documentCheck) run(ctx context.Context) {
	if d.stray != "" {
		d.problem(place{line: 0}, "", "", fmt.Sprintf("%q after the document separator ---; only a comment is accepted there", d.stray))
		return
	}
	value, err := decode(d.data)
	if err != nil {
		d.problem(place{line: err.line}, "", "", err.message)
		return
	}
	if value == nil {
		return
	}
	if d.mixed && d.ofOthers(value) {
		return
	}
	text := tree{parseTree(d.data)}
	d.duplicates(text.root)
	d.value(ctx, value, text)
}

// duplicates reports repeated keys, which strict decoding refuses.
func (d *documentCheck) duplicates(root *yamlv3.Node) {
	err := strictError(d.data)
	if err == nil {
		return
	}
	located := false
	duplicateKeys("", root, func(key, first *yamlv3.Node, path string) {
		located = true
		d.twice = append(d.twice, path)
		d.problem(placeOf(key), "", "", fmt.Sprintf("key %q already set in map in line %d", key.Value, d.lineInFile(first.Line)))
	})
	if located {
		return
	}
	for line, message := range mergedKeys(err) {
		d.problem(place{line: line}, "", "", message+" by the merge <<; strict decoding accepts no key beside << that is merged as well")
		located = true
	}
	if !located {
		d.problem(place{line: 1}, "", "", err.Error())
	}
}

// value checks one object, or each object of a List.
func (d *documentCheck) value(ctx context.Context, value any, text tree) {
	if d.mixed && d.ofOthers(value) {
		return
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		d.found.Objects++
		d.problem(text.field(""), "", "", fmt.Sprintf("expected an object with apiVersion, kind and metadata, found %s", describe(value)))
		return
	}
	if !isList(object) {
		d.found.Objects++
		d.object(ctx, object, text)
		return
	}
	for i, item := range object["items"].([]any) {
		_, node, found := text.locate(fmt.Sprintf("items[%d]", i))
		if !found {
			node = text.root
		}
		d.value(ctx, item, tree{node})
	}
}

// ofOthers reports whether a value is of no kind and no API group of ours, and no list in which
// one could be: the values of a chart, a patch, a Deployment.
func (d *documentCheck) ofOthers(value any) bool {
	object, _ := value.(map[string]any)
	kind, _ := object["kind"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	ours := d.validator.kinds[kind] != nil || strings.HasPrefix(apiVersion, v1alpha1.GroupVersion.Group+"/")
	return !ours && !isList(value)
}

// isList reports whether a decoded value is a List, which kubectl takes apart.
func isList(value any) bool {
	object, _ := value.(map[string]any)
	_, hasItems := object["items"].([]any)
	return hasItems && object["kind"] == "List" && object["apiVersion"] == "v1"
}

// problem records what is wrong at a place of the document.
func (d *documentCheck) problem(at place, object, field, message string) {
	d.found.Problems = append(d.found.Problems, d.at(at, object, field, message))
}

// warning records what is worth a second look at a place of the document.
func (d *documentCheck) warning(at place, object, field, message string) {
	d.found.Warnings = append(d.found.Warnings, d.at(at, object, field, message))
}

func (d *documentCheck) at(at place, object, field, message string) Problem {
	return Problem{File: d.name, Line: d.lineInFile(at.line), Column: at.column, Object: object, Field: field, Message: message}
}

// lineInFile converts a line of the document. YAML has more line ends than
// editors count, and its errors may point after the last line.
func (d *documentCheck) lineInFile(line int) int {
	last := bytes.Count(d.data, []byte("\n")) + 1
	return d.firstLine + min(line, last) - 1
}

// describe names the type of a decoded value for a message.
func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "nothing"
	case []any:
		return "a list"
	case string:
		return "text"
	default:
		return fmt.Sprint(value)
	}
}
