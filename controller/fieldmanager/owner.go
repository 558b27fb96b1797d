package fieldmanager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Ours reports whether a field of an object with these managed fields is as the controller has set it. A mark
// beside it alone does not tell: somebody may have removed ours and set another one while no controller ran.
// Whoever last changed a field is its manager, as is whoever applies it as it is.
func Ours(managed []metav1.ManagedFieldsEntry, field fieldpath.Path) bool {
	for i := range managed {
		entry := &managed[i]
		if entry.Manager == string(Controller) || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil || fields.Has(field) {
			return false
		}
	}
	return true
}
