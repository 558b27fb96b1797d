package offline

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSelector checks spec.nodeSelector as the controller reads it. The
// schema knows neither the syntax of labels nor, per requirement, the
// operators.
func validateSelector(object map[string]any) field.ErrorList {
	path := field.NewPath("spec", "nodeSelector")
	spec, _ := object["spec"].(map[string]any)
	value, isMap := spec["nodeSelector"].(map[string]any)
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
