package fieldmanager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ancientChanges is the manager into which the API server merges the oldest when an object has more than ten
// that update it (k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go).
const ancientChanges = "ancient-changes"

// Ours reports whether a field of an object with these managed fields is as the controller has set it, in one
// write with its mark, which is still there. The mark alone does not tell: somebody may have removed ours and set
// another one while no controller ran. Whoever last changed a field is its manager, as is whoever applies it as it
// is. Once the API server has merged managers, a field is ours if it is where its mark is: what others write later
// has an entry of its own. If that was merged, too, nobody can tell, and it is taken for ours.
func Ours(managed []metav1.ManagedFieldsEntry, field, mark fieldpath.Path) bool {
	for i := range managed {
		entry := &managed[i]
		if entry.Manager == string(Controller) || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return false
		}
		if fields.Has(field) && (entry.Manager != ancientChanges || !fields.Has(mark)) {
			return false
		}
	}
	return true
}
