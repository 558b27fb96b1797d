package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	original := runtime.DeepCopyJSON(object)
	decoded := rules.decode(object)
	id := rules.Kind()
	if name := decoded.meta.Name; name != "" {
		if namespace, _, _ := unstructured.NestedString(original, "metadata", "namespace"); namespace != "" && id == "NodemendRemediationTemplate" {
			id += "/" + namespace // the one kind that has one
		}
		id += "/" + name
		d.unique(id, text.field("metadata.name"))
	}
	metaPath := "" // of what is wrong with the types in metadata
	if err := decoded.metaErr; err != nil {
		metaPath = metadataField(err)
		d.problem(text.field(metaPath), id, metaPath, metadataMessage(err))
	}
	for _, path := range decoded.unknownFields {
		d.problem(text.key(path), id, path, rules.unknownField(path))
	}
	ours := append(validateSelectors(object), validateBudget(object)...)
	errs := rules.validate(ctx, decoded)
	for _, err := range mistakes(append(errs, ours...), decoded.unknownFields) {
		switch {
		case metaPath != "" && within(err.Field, metaPath):
		case err.Type == field.ErrorTypeRequired && slices.ContainsFunc(d.twice, func(path string) bool { return within(err.Field, path) }):
		case slices.ContainsFunc(ours, func(exact *field.Error) bool { return err.Field != exact.Field && within(exact.Field, err.Field) }):
		default:
			d.fieldError(text, id, err)
		}
	}
	if len(d.found.Problems) == before {
		d.valid(object, original, id, text)
	}
}

// valid keeps an object without an error, and says what in it may not be meant.
func (d *documentCheck) valid(object, original map[string]any, id string, text tree) {
	at := func(field string) Problem { return d.at(text.field(field), id, field, "") }
	var suspicions []suspicion
	var err error
	switch object["kind"] {
	case "RemedyPolicy":
		var policy v1alpha1.RemedyPolicy
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object, &policy)
		suspicions = d.validator.known.suspicions(&policy.Spec)
		d.found.Policies = append(d.found.Policies, policy)
		d.placed = append(d.placed, placedPolicy{&policy, at})
	case "RemediationBudget":
		var budget v1alpha1.RemediationBudget
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object, &budget)
		suspicions = budgetSuspicions(&budget.Spec)
		d.found.Budgets = append(d.found.Budgets, budget)
	}
	if err != nil {
		d.problem(text.field(""), id, "", err.Error())
		return
	}
	for _, s := range suspicions {
		d.warning(text.field(s.field), id, s.field, s.message)
	}
	d.found.Valid = append(d.found.Valid, Valid{At: at("metadata.name"), Object: original})
}

// kindOf returns the rules for an object, or nil after it has reported that
// there are none.
func (d *documentCheck) kindOf(object map[string]any, text tree) *kindRules {
	kind, _ := object["kind"].(string)
	rules := d.validator.kinds[kind]
	apiVersion, _ := object["apiVersion"].(string)
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
	switch apiVersion {
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
		d.problem(at, id, "metadata.name", fmt.Sprintf("Duplicate value: also in %s:%d:%d", printable(earlier.File), earlier.Line, earlier.Column))
		return
	}
	d.seen[id] = here
}

// fieldError records an error of the API server's.
func (d *documentCheck) fieldError(text tree, id string, err *field.Error) {
	d.problem(text.field(err.Field), id, err.Field, message(err)+quotesHint(text, err.Field, err.Detail))
}

var fieldInDetail = regexp.MustCompile(`\b(spec|metadata)[.][\w.\[\]]*\w`)

// fieldNamedIn returns the field that the detail of an error names, for errors
// that have none.
func fieldNamedIn(detail string) string { return fieldInDetail.FindString(detail) }

// message is what the API server says about the field, in plain words, and without the
// value if that is a mapping or a list: it is in the file.
func message(err *field.Error) string {
	detail, withoutValue := plain(err.Detail)
	switch err.BadValue.(type) {
	case map[string]any, []any, nil:
		withoutValue = true
	}
	if withoutValue && detail != "" {
		return fmt.Sprintf("%s: %s", err.Type, detail)
	}
	plain := *err
	plain.Detail = detail
	return plain.ErrorBody()
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

// metadataMessage says which type the value has, and which it must have.
func metadataMessage(err error) string {
	var wrongType *json.UnmarshalTypeError
	if !errors.As(err, &wrongType) {
		return err.Error()
	}
	accepted := map[reflect.Kind]string{
		reflect.String: "text", reflect.Slice: "a list", reflect.Map: "a mapping", reflect.Struct: "a mapping", reflect.Bool: "true or false",
	}[wrongType.Type.Kind()]
	if accepted == "" {
		return err.Error()
	}
	return fmt.Sprintf("Invalid value: must be %s, not a %s", accepted, wrongType.Value)
}
