package crd_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/internal/crd"
)

// One that was written before the rule can still be written, by the controller first of all.
func TestAPauseThatHasASelectorMayKeepIt(t *testing.T) {
	all, err := crd.Load(deploy.CRDs, func(kind string) bool { return kind == "RemediationBudget" })
	if err != nil {
		t.Fatal(err)
	}
	rules := all[0]
	pause := func(selector bool) map[string]any {
		spec := map[string]any{"paused": true}
		if selector {
			spec["nodeSelector"] = map[string]any{"matchLabels": map[string]any{"pool": "workers"}}
		}
		b := map[string]any{"apiVersion": rules.APIVersion(), "kind": rules.Kind(), "metadata": map[string]any{"name": "nodemend-pause"}, "spec": spec}
		rules.Default(b)
		return b
	}
	written := func(b map[string]any) map[string]any {
		b = runtime.DeepCopyJSON(b)
		b["status"] = map[string]any{"observedGeneration": int64(1)}
		return b
	}
	for name, tt := range map[string]struct {
		now, old map[string]any
		refused  bool
	}{
		"new":              {pause(true), nil, true},
		"given one":        {pause(true), pause(false), true},
		"has one, status":  {written(pause(true)), pause(true), false},
		"has one, is lost": {pause(false), pause(true), false},
		"has none":         {written(pause(false)), pause(false), false},
	} {
		errs, _ := rules.Validate(t.Context(), tt.now, tt.old)
		if got := len(errs) > 0; got != tt.refused || tt.refused && !strings.Contains(errs.ToAggregate().Error(), "pauses the whole cluster") {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
