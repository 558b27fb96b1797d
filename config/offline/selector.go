package offline

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// validateSelectors checks the selectors of an object as the controller reads them. The
// schema knows neither the syntax of labels nor, per requirement, the operators.
func validateSelectors(object map[string]any) (errs field.ErrorList) {
	path := field.NewPath("spec")
	spec, _ := object["spec"].(map[string]any)
	errs = validateSelector(spec, path, "nodeSelector")
	errs = append(errs, validateDrain(spec, path)...)
	steps, _ := spec["steps"].([]any)
	for i := range steps {
		step, _ := steps[i].(map[string]any)
		for _, remedy := range v1alpha1.Remedies() {
			if remedy.Drains() {
				taking, _ := step[remedy.Name].(map[string]any)
				errs = append(errs, validateDrain(taking, path.Child("steps").Index(i).Child(remedy.Name))...)
			}
		}
	}
	return errs
}

// validateDrain checks the selectors of the drain in parent, if there is one.
func validateDrain(parent map[string]any, path *field.Path) field.ErrorList {
	drain, _ := parent["drain"].(map[string]any)
	path = path.Child("drain")
	return append(validateSelector(drain, path, "podSelector"), validateSelector(drain, path, "vetoedBy")...)
}

func validateSelector(parent map[string]any, path *field.Path, name string) field.ErrorList {
	path = path.Child(name)
	value, isMap := parent[name].(map[string]any)
	if !isMap {
		return nil
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, &selector); err != nil {
		return nil // a wrong type, which the schema reports better
	}
	errs := metavalidation.ValidateLabelSelector(&selector, metavalidation.LabelSelectorValidationOptions{}, path)
	if len(errs) > 0 {
		return errs
	}
	if _, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}
