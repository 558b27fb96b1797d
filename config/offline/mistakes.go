package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mistakes returns one error for each mistake, with the path of what is wrong. The API
// server often tells one mistake by several errors, some of which have no path.
func mistakes(errs field.ErrorList, unknownFields []string) field.ErrorList {
	for _, err := range errs {
		if err.Field = pathOf(err); err.Field == "<nil>" {
			err.Field = ""
		}
	}
	var kept field.ErrorList
	for _, err := range errs {
		again := func(other *field.Error) bool {
			return other.Field == err.Field && (other.Type == field.ErrorTypeTypeInvalid || fmt.Sprint(other.BadValue) == fmt.Sprint(err.BadValue))
		}
		follows := func(unknown string) bool { return followsFrom(err, unknown) }
		if !slices.ContainsFunc(kept, again) && !slices.ContainsFunc(unknownFields, follows) {
			kept = append(kept, err)
		}
	}
	return kept
}

// pathOf returns the field of an error, or that which its detail names.
func pathOf(err *field.Error) string {
	if err.Field != "" && err.Field != "<nil>" {
		return err.Field
	}
	if named := fieldNamedIn(err.Detail); named != "" {
		return named
	}
	return err.Field
}

// followsFrom reports whether an error is there because a field beside or in it has a name
// that the schema does not know: what is missing is there, under a wrong name.
func followsFrom(err *field.Error, unknown string) bool {
	parent, name := parentOf(unknown)
	switch {
	case err.Type == field.ErrorTypeRequired:
		missing, required := parentOf(err.Field)
		return missing == parent && nearly(name, required)
	case err.Field != parent:
		return false
	case strings.HasPrefix(err.Detail, "must not be empty"): // labels that lack matchLabels
		return true
	default:
		return slices.ContainsFunc(word.FindAllString(err.Detail, -1), func(accepted string) bool { return nearly(name, accepted) })
	}
}

var word = regexp.MustCompile(`\w+`)

// parentOf cuts the last field off a path.
func parentOf(path string) (parent, name string) {
	if dot := strings.LastIndex(path, "."); dot >= 0 {
		return path[:dot], path[dot+1:]
	}
	return "", path
}

// within reports whether a path is another one or below it.
func within(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (above == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// notAbout returns the errors of CEL rules that are not a consequence of what the schema
// holds against the object: rules cannot be evaluated on values of a wrong type.
func notAbout(broken, rules field.ErrorList) (kept field.ErrorList) {
	for _, err := range rules {
		follows := func(cause *field.Error) bool {
			at := pathOf(cause)
			return within(err.Field, at) || within(at, err.Field) && evaluating.MatchString(err.Detail)
		}
		if !slices.ContainsFunc(broken, follows) {
			kept = append(kept, err)
		}
	}
	return kept
}

// evaluating matches the detail of a rule that could not be evaluated: the reason, and what
// the rule would have said.
var evaluating = regexp.MustCompile(`^(.*) evaluating rule: (.*)$`)

// inBody matches a detail of the schema's.
var inBody = regexp.MustCompile(`^\S* in body (.*)$`)

// wrongType matches what is left of a detail about a type: the accepted ones, and the one
// that the value has.
var wrongType = regexp.MustCompile(`^must be of type ([\w,]+): "(\w+)"$`)

// plain says the detail of an error without the insides of schema and CEL. It reports
// whether the value is better left out, since the detail says it or has another one.
func plain(detail string) (text string, withoutValue bool) {
	if match := evaluating.FindStringSubmatch(detail); match != nil {
		switch reason, rule := match[1], match[2]; {
		case strings.HasSuffix(reason, "'google.protobuf.Duration'"):
			return "is too long: at most 2562047h", true
		case strings.HasPrefix(reason, "error parsing regexp: "):
			return strings.TrimPrefix(reason, "error parsing regexp: ") + ": " + rule, true
		default:
			return rule, true
		}
	}
	if match := inBody.FindStringSubmatch(detail); match != nil {
		detail = match[1]
	}
	if match := wrongType.FindStringSubmatch(detail); match != nil {
		var accepted []string
		for _, name := range strings.Split(match[1], ",") {
			accepted = append(accepted, typeName(name))
		}
		return fmt.Sprintf("must be %s, not %s", strings.Join(accepted, " or "), typeName(match[2])), true
	}
	return detail, false
}

// typeName says a type of the schema, or of Go, as people say it.
func typeName(name string) string {
	switch name {
	case "string":
		return "text"
	case "integer", "int32", "int64":
		return "a whole number"
	case "number", "float64":
		return "a number with a fraction"
	case "boolean":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	default:
		return name
	}
}
