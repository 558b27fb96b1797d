package remediation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestADecisionIsMadeFromTheLaterOfTheCacheAndTheLastWrite(t *testing.T) {
	at := func(uid types.UID, version string) *v1alpha1.Remediation {
		return &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "n1-0123", UID: uid, ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		wrote, cached *v1alpha1.Remediation
		own           bool
	}{
		"nothing was written":                   {nil, at("a", "7"), false},
		"the cache is behind":                   {at("a", "10"), at("a", "9"), true},
		"the cache has it":                      {at("a", "10"), at("a", "10"), false},
		"somebody has written since":            {at("a", "10"), at("a", "11"), false},
		"the cache has another one of the name": {at("a", "10"), at("b", "9"), false},
		"a version that can't be compared":      {at("a", "10"), at("a", "x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var w written
			if tt.wrote != nil {
				w.keep(tt.wrote)
			}
			want := tt.cached
			if tt.own {
				want = tt.wrote
			}
			if got := w.latest(tt.cached); got != want {
				t.Errorf("%s of %s", got.ResourceVersion, got.UID)
			}
			if remembered := len(w.byName) != 0; remembered != tt.own {
				t.Errorf("remembered: %t", remembered)
			}
		})
	}
	var w written
	w.keep(at("a", "10"))
	w.drop("n1-0123")
	if len(w.byName) != 0 {
		t.Error("one that is gone is remembered")
	}
}
