package offline

import (
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Validator knows the rules of every kind that people write. It never
// changes; any number of goroutines may use it.
type Validator struct {
	kinds map[string]*kindRules
	// others are the kinds of the same CRDs that people do not write.
	others map[string]bool
}

// writtenByPeople lists the accepted kinds, in the order in which messages
// name them.
func writtenByPeople() []string {
	return []string{"RemedyPolicy", "RemediationBudget", "NodeMaintenance"}
}

// kindRules is what the API server makes of one version of a
// CustomResourceDefinition.
type kindRules struct {
	kind       string
	apiVersion string
	hasStatus  bool
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// Load reads the CustomResourceDefinitions chart/crds/*.yaml of a file system and
// compiles the rules of the kinds that people write. It fails if a definition
// cannot be read or one of these kinds is missing.
func Load(crds fs.FS) (*Validator, error) {
	files, err := fs.Glob(crds, "chart/crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	v := &Validator{kinds: map[string]*kindRules{}, others: map[string]bool{}}
	for _, file := range files {
		if err := v.loadFile(crds, file); err != nil {
			return nil, fmt.Errorf("loading CRD %s: %w", file, err)
		}
	}
	for _, kind := range writtenByPeople() {
		if v.kinds[kind] == nil {
			return nil, fmt.Errorf("loading CRDs: none of the %d files chart/crds/*.yaml defines kind %s", len(files), kind)
		}
	}
	return v, nil
}

func (v *Validator) loadFile(crds fs.FS, file string) error {
	data, err := fs.ReadFile(crds, file)
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return err
	}
	kind := crd.Spec.Names.Kind
	if !slices.Contains(writtenByPeople(), kind) {
		v.others[kind] = true
		return nil
	}
	if count := len(crd.Spec.Versions); count != 1 {
		return fmt.Errorf("kind %s has %d versions; exactly one is supported", kind, count)
	}
	rules, err := newKindRules(crd.Spec.Group, kind, &crd.Spec.Versions[0])
	if err != nil {
		return fmt.Errorf("kind %s: %w", kind, err)
	}
	v.kinds[kind] = rules
	return nil
}

// newKindRules prepares a version as the API server does before it serves it
// (getOrCreateServingInfoFor in apiextensions-apiserver).
func newKindRules(group, kind string, version *apiextensionsv1.CustomResourceDefinitionVersion) (*kindRules, error) {
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, &internal, nil); err != nil {
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
	return &kindRules{
		kind:       kind,
		apiVersion: group + "/" + version.Name,
		hasStatus:  version.Subresources != nil && version.Subresources.Status != nil,
		structural: structural,
		schema:     schema,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}
