package worker

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAnUpdateToAnotherObjectOfTheNameIsAChange(t *testing.T) {
	policy := func(uid types.UID, generation int64) *v1alpha1.RemedyPolicy {
		return &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid, Generation: generation}}
	}
	for name, tt := range map[string]struct {
		updated *v1alpha1.RemedyPolicy
		want    bool
	}{
		"the same":                {policy("a", 1), false},
		"an edit":                 {policy("a", 2), true},
		"created again meanwhile": {policy("b", 1), true},
	} {
		if got := OnSpec().Update(event.UpdateEvent{ObjectOld: policy("a", 1), ObjectNew: tt.updated}); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
