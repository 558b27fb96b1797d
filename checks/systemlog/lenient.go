package systemlog

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// withoutTrailingCommas replaces each comma before a closing bracket by a space
// and returns their offsets. Offsets in the result are those in data.
func withoutTrailingCommas(data []byte) (strict []byte, commas []int) {
	strict = data
	inString, pending := false, -1
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString:
			if c == '\\' {
				i++
			}
			inString = c != '"'
		case c == '"':
			inString, pending = true, -1
		case c == ',':
			pending = i
		case c == ']' || c == '}':
			if pending >= 0 {
				commas = append(commas, pending)
			}
			pending = -1
		case !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)):
			pending = -1
		}
	}
	if len(commas) > 0 {
		strict = slices.Clone(data)
		for _, i := range commas {
			strict[i] = ' '
		}
	}
	return strict, commas
}

func lineColumn(data []byte, offset int) string {
	before := data[:max(0, min(offset, len(data)))]
	return fmt.Sprintf(":%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}

// unknownFields are the paths of the fields in data that NPD's schema lacks.
func unknownFields(data []byte) []string {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return nil
	}
	return unknownIn(value, reflect.TypeFor[Schema](), "")
}

func unknownIn(value any, t reflect.Type, path string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	var unknown []string
	switch v := value.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		known := jsonFields(t)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			// Like encoding/json, in any case of letters.
			if field, found := known[strings.ToLower(key)]; found {
				unknown = append(unknown, unknownIn(v[key], field, path+key+".")...)
			} else {
				unknown = append(unknown, path+key)
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, element := range v {
			unknown = append(unknown, unknownIn(element, t.Elem(), fmt.Sprintf("%s[%d].", strings.TrimSuffix(path, "."), i))...)
		}
	}
	return unknown
}

// jsonFields are the types of a struct's fields by their JSON names in lower
// case.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[strings.ToLower(name)] = f.Type
		}
	}
	return fields
}
