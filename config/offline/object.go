package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// object checks one object by the rules of its kind.
func (d *documentCheck) object(ctx context.Context, object map[string]any, text tree) {
	rules := d.kindOf(object, text)
	if rules == nil {
		return
	}
	before := len(d.found.Problems)
	decoded := rules.decode(object)
	id := rules.Kind()
	if name := decoded.meta.Name; name != "" {
		id += "/" + name
		d.unique(id, text.field("metadata.name"))
	}
	if err := decoded.metaErr; err != nil {
		path := metadataField(err)
		d.problem(text.field(path), id, path, err.Error())
	}
	for _, path := range decoded.unknownFields {
		d.problem(text.key(path), id, path, rules.unknownField(path))
	}
	errs, complete := rules.validate(ctx, decoded)
	for _, err := range errs {
		d.fieldError(text, id, err)
	}
	if !complete {
		d.warning(text.field(""), id, "", "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")
	}
	for _, err := range append(validateSelectors(object), validateBudget(object)...) {
		if !slices.ContainsFunc(errs, func(known *field.Error) bool { return known.Field == err.Field }) {
			d.fieldError(text, id, err)
		}
	}
	d.warn(object, id, text)
	if rules.Kind() == "RemedyPolicy" && len(d.found.Problems) == before {
		d.policy(object, id, text)
	}
}

// policy keeps a policy without an error.
func (d *documentCheck) policy(object map[string]any, id string, text tree) {
	var policy v1alpha1.RemedyPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &policy); err != nil {
		d.problem(text.field(""), id, "", err.Error())
		return
	}
	d.found.Policies = append(d.found.Policies, policy)
}

// kindOf returns the rules for an object, or nil after it has reported that
// there are none.
func (d *documentCheck) kindOf(object map[string]any, text tree) *kindRules {
	kind, _ := object["kind"].(string)
	rules := d.validator.kinds[kind]
	switch {
	case rules != nil:
	case kind == "":
		d.problem(text.field("kind"), "", "kind", "Required value: accepted are "+acceptedKinds())
		return nil
	case d.validator.others[kind]:
		d.problem(text.field("kind"), kind, "kind", fmt.Sprintf("a %s is written by Nodemend, not by people; accepted are %s", kind, acceptedKinds()))
		return nil
	default:
		d.problem(text.field("kind"), kind, "kind", fmt.Sprintf("Unsupported value: %q: accepted are %s", kind, acceptedKinds()))
		return nil
	}
	switch apiVersion, _ := object["apiVersion"].(string); apiVersion {
	case rules.APIVersion():
	case "":
		d.problem(text.field("apiVersion"), kind, "apiVersion", fmt.Sprintf("Required value: a %s has %s", kind, rules.APIVersion()))
	default:
		d.problem(text.field("apiVersion"), kind, "apiVersion", fmt.Sprintf("Unsupported value: %q: a %s has %s", apiVersion, kind, rules.APIVersion()))
	}
	return rules
}

// unique reports an object that was there before.
func (d *documentCheck) unique(id string, at place) {
	here := d.at(at, id, "metadata.name", "")
	if earlier, ok := d.seen[id]; ok {
		d.problem(at, id, "metadata.name", fmt.Sprintf("Duplicate value: also in %s:%d:%d", earlier.File, earlier.Line, earlier.Column))
		return
	}
	d.seen[id] = here
}

// fieldError records an error of the API server's, with its own words.
func (d *documentCheck) fieldError(text tree, id string, err *field.Error) {
	path := err.Field
	if path == "<nil>" {
		path = ""
	}
	at := path
	if at == "" {
		at = fieldNamedIn(err.Detail)
	}
	d.problem(text.field(at), id, path, message(err)+quotesHint(text, path, err.Detail))
}

var fieldInDetail = regexp.MustCompile(`\b(spec|metadata)[.][\w.\[\]]*\w`)

// fieldNamedIn returns the field that the detail of an error names, for errors
// that have none.
func fieldNamedIn(detail string) string { return fieldInDetail.FindString(detail) }

// message is what the API server says about the field, but without the value
// if that is a mapping or a list: it is in the file.
func message(err *field.Error) string {
	switch err.BadValue.(type) {
	case map[string]any, []any, nil:
		if err.Detail != "" {
			return fmt.Sprintf("%s: %s", err.Type, err.Detail)
		}
	}
	return err.ErrorBody()
}

var notText = regexp.MustCompile(`of type string: "(integer|number|boolean)"$`)

// quotesHint says what to do about a number or a boolean where text is
// expected, and nothing about other errors.
func quotesHint(text tree, path, detail string) string {
	if !notText.MatchString(detail) {
		return ""
	}
	value, ok := text.plainScalar(path)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; %s without quotes is not text in YAML", value)
}

// metadataField returns the field of a value in metadata that has the wrong
// type.
func metadataField(err error) string {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return "metadata." + wrongType.Field
	}
	return "metadata"
}

// warn records what is accepted but may not be meant.
func (d *documentCheck) warn(object map[string]any, id string, text tree) {
	spec, ok := object["spec"].(map[string]any)
	if !ok || object["kind"] != "RemedyPolicy" {
		return
	}
	if _, ok := spec["nodeSelector"]; !ok {
		d.warning(text.key("spec"), id, "spec.nodeSelector", "left out: the policy applies to all nodes, control-plane nodes too")
	}
}
