// Package crd applies the rules of CustomResourceDefinitions as the API server does, by
// the same code: pruning, defaults, the schema and the CEL rules.
package crd

import (
	"context"
	"fmt"
	"io/fs"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// Rules is what the API server makes of a kind. It never changes; any number of
// goroutines may use it.
type Rules struct {
	// Definition that the rules were made from.
	Definition *apiextensionsv1.CustomResourceDefinition
	// Structural is its schema.
	Structural *structuralschema.Structural

	schema validation.SchemaValidator
	cel    *cel.Validator
}

// Load reads the definitions chart/crds/*.yaml of a file system and compiles the rules of
// the kinds that want wants. Each has one version.
func Load(definitions fs.FS, want func(kind string) bool) ([]*Rules, error) {
	files, err := fs.Glob(definitions, "chart/crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	var all []*Rules
	for _, file := range files {
		definition, err := read(definitions, file)
		if err != nil {
			return nil, fmt.Errorf("loading CRD %s: %w", file, err)
		}
		if !want(definition.Spec.Names.Kind) {
			continue
		}
		rules, err := compile(definition)
		if err != nil {
			return nil, fmt.Errorf("loading CRD %s: kind %s: %w", file, definition.Spec.Names.Kind, err)
		}
		all = append(all, rules)
	}
	return all, nil
}

func read(definitions fs.FS, file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := fs.ReadFile(definitions, file)
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	return &definition, yaml.UnmarshalStrict(data, &definition)
}

// compile prepares a definition as the API server does before it serves it
// (getOrCreateServingInfoFor in apiextensions-apiserver).
func compile(definition *apiextensionsv1.CustomResourceDefinition) (*Rules, error) {
	if count := len(definition.Spec.Versions); count != 1 {
		return nil, fmt.Errorf("it has %d versions; exactly one is supported", count)
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
		definition.Spec.Versions[0].Schema, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("pruning the defaults: %w", err)
	}
	schema, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	return &Rules{
		Definition: definition, Structural: structural, schema: schema,
		cel: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Kind of the objects.
func (r *Rules) Kind() string { return r.Definition.Spec.Names.Kind }

// APIVersion of the objects.
func (r *Rules) APIVersion() string {
	return r.Definition.Spec.Group + "/" + r.Definition.Spec.Versions[0].Name
}

// HasStatus reports whether the status is a subresource.
func (r *Rules) HasStatus() bool {
	subresources := r.Definition.Spec.Versions[0].Subresources
	return subresources != nil && subresources.Status != nil
}

// Decode does with an object what the API server does when it decodes a request, beside
// the metadata: it removes fields that the schema does not know, whose paths it returns,
// and fills in the defaults. It changes the object.
func (r *Rules) Decode(object map[string]any) (unknownFields []string) {
	unknownFields = pruning.PruneWithOptions(object, r.Structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	r.Default(object)
	return unknownFields
}

// Default fills in the defaults, as is done with what comes from etcd, too. It changes
// the object.
func (r *Rules) Default(object map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, r.Structural)
	defaulting.Default(object, r.Structural)
}

// Validate applies the schema and the CEL rules; old is nil for a new object. It is not
// complete if errors keep the CEL rules from being evaluated. Metadata are not its
// concern.
func (r *Rules) Validate(ctx context.Context, object, old map[string]any) (errs field.ErrorList, complete bool) {
	var correlated *common.CorrelatedObject
	if old != nil {
		correlated = common.NewCorrelatedObject(object, old, &model.Structural{Structural: r.Structural})
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, r.schema, validation.WithRatcheting(correlated))
	} else {
		errs = validation.ValidateCustomResource(nil, object, r.schema)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.Structural, object)...)
	if blocksCEL(errs) {
		return errs, false
	}
	return append(errs, r.validateCEL(ctx, object, old, correlated)...), true
}

// ValidateCEL applies the CEL rules alone, to an object that conforms to the schema.
func (r *Rules) ValidateCEL(ctx context.Context, object, old map[string]any) field.ErrorList {
	return r.validateCEL(ctx, object, old, nil)
}

func (r *Rules) validateCEL(ctx context.Context, object, old map[string]any, correlated *common.CorrelatedObject) field.ErrorList {
	var before any // an untyped nil if there is none
	if old != nil {
		before = old
	}
	var options []cel.Option
	if correlated != nil {
		options = append(options, cel.WithRatcheting(correlated))
	}
	errs, _ := r.cel.Validate(ctx, nil, r.Structural, object, before, celconfig.RuntimeCELCostBudget, options...)
	return errs
}

// blocksCEL reports whether CEL rules cannot be evaluated after these errors: they rely
// on types, required fields and limits.
func blocksCEL(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
