package offline

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// unknownField says what is accepted in place of a field that the schema does
// not know.
func (k *kindRules) unknownField(path string) string {
	message := fmt.Sprintf("unknown field %q", path)
	names := k.fieldsBeside(path)
	if len(names) == 0 {
		return message
	}
	return message + ": accepted are " + strings.Join(names, ", ")
}

var index = regexp.MustCompile(`\[\d+\]`)

// fieldsBeside returns the names that the schema accepts where the last
// element of the path is, sorted; none if it does not say so.
func (k *kindRules) fieldsBeside(path string) []string {
	elements := strings.Split(index.ReplaceAllString(path, ".[]"), ".")
	at := k.Structural
	for _, element := range elements[:len(elements)-1] {
		var next *structuralschema.Structural
		if element == "[]" {
			next = at.Items
		} else if property, ok := at.Properties[element]; ok {
			next = &property
		}
		if next == nil {
			return nil
		}
		at = next
	}
	return slices.Sorted(maps.Keys(at.Properties))
}
