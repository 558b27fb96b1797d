package fieldmanager

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func TestAFieldIsOursUnlessSomebodyElseHasChangedItSince(t *testing.T) {
	const (
		field, mark = `{"f:spec":{"f:unschedulable":{}}}`, `{"f:metadata":{"f:annotations":{"f:mark":{}}}}`
		both        = `{"f:metadata":{"f:annotations":{"f:mark":{}}},"f:spec":{"f:unschedulable":{}}}`
		other       = `{"f:metadata":{"f:annotations":{"f:other":{}}}}`
	)
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ours := string(Controller)
	for name, tt := range map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    bool
	}{
		"nobody says":        {nil, true},
		"we have set it":     {[]metav1.ManagedFieldsEntry{entry("kubelet", other), entry(ours, both)}, true},
		"a person's":         {[]metav1.ManagedFieldsEntry{entry(ours, mark), entry("kubectl", field)}, false},
		"applied as it is":   {[]metav1.ManagedFieldsEntry{entry(ours, both), entry("gitops", field)}, false},
		"what can't be read": {[]metav1.ManagedFieldsEntry{entry(ours, both), entry("kubectl", "no JSON")}, false},

		"ours is merged": {[]metav1.ManagedFieldsEntry{entry(ancientChanges, both), entry("kubelet", other)}, true},
		"ours is merged, and we have written since":             {[]metav1.ManagedFieldsEntry{entry(ancientChanges, both), entry(ours, other)}, true},
		"others are merged":                                     {[]metav1.ManagedFieldsEntry{entry(ancientChanges, other), entry(ours, both)}, true},
		"merged, uncordoned by a person, and cordoned by us":    {[]metav1.ManagedFieldsEntry{entry(ancientChanges, mark), entry(ours, field)}, true},
		"merged, and changed by a person since":                 {[]metav1.ManagedFieldsEntry{entry(ancientChanges, mark), entry("kubectl", field)}, false},
		"merged, and applied by somebody since":                 {[]metav1.ManagedFieldsEntry{entry(ancientChanges, both), entry("gitops", field)}, false},
		"a person's is merged, and ours is not":                 {[]metav1.ManagedFieldsEntry{entry(ancientChanges, field), entry(ours, mark)}, false},
		"both are merged, or ours alone, which nobody can tell": {[]metav1.ManagedFieldsEntry{entry(ancientChanges, both)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			unschedulable, mark := fieldpath.MakePathOrDie("spec", "unschedulable"), fieldpath.MakePathOrDie("metadata", "annotations", "mark")
			if got := Ours(tt.managed, unschedulable, mark); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
