package offline

import (
	"fmt"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// validateBudget checks of a budget what the schema does not know: the syntax of
// labels, time zones, and windows that do not say what is meant.
func validateBudget(object map[string]any) (errs field.ErrorList) {
	spec, _ := object["spec"].(map[string]any)
	path := field.NewPath("spec")
	if key, _ := spec["groupBy"].(string); key != "" {
		errs = metavalidation.ValidateLabelName(key, path.Child("groupBy"))
	}
	windows, _ := spec["allowedWindows"].([]any)
	for i, item := range windows {
		fields, _ := item.(map[string]any)
		at := path.Child("allowedWindows").Index(i)
		window := v1alpha1.Window{}
		window.TimeZone, _ = fields["timeZone"].(string)
		if _, err := window.Location(); err != nil {
			errs = append(errs, field.Invalid(at.Child("timeZone"), window.TimeZone, err.Error()))
		}
		start, _ := fields["start"].(string)
		if end, _ := fields["end"].(string); start == end && start != "00:00" {
			errs = append(errs, field.Invalid(at.Child("end"), end,
				fmt.Sprintf("is the start as well, which would be 24 hours from %s; for whole days write 00:00 as start and end", start)))
		}
	}
	return errs
}
