package remediation

import (
	"testing"
	"time"

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

func TestARemediationThatWasJustCreatedIsThereBeforeTheCacheHasIt(t *testing.T) {
	at := func(version string) *v1alpha1.Remediation {
		return &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "n1-0123", UID: "a", ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		do   func(*written)
		want string
	}{
		"it was created":                       {func(w *written) { w.created(at("5"), ago(time.Second).Time) }, "5"},
		"it was written since":                 {func(w *written) { w.created(at("5"), ago(time.Second).Time); w.keep(at("6")) }, "6"},
		"it was created long ago":              {func(w *written) { w.created(at("5"), ago(time.Minute).Time) }, ""},
		"the clock was put back":               {func(w *written) { w.created(at("5"), ago(-time.Second).Time) }, ""},
		"it was only written":                  {func(w *written) { w.keep(at("6")) }, ""},
		"the cache had it, and has it no more": {func(w *written) { w.created(at("5"), ago(time.Second).Time); w.latest(at("5")) }, ""},
		"the cache had it as it was before":    {func(w *written) { w.created(at("5"), ago(time.Second).Time); w.keep(at("6")); w.latest(at("5")) }, ""},
		"nothing was created":                  {func(*written) {}, ""},
		"a write has found that it is gone":    {func(w *written) { w.created(at("5"), ago(time.Second).Time); w.drop("n1-0123") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var w written
			tt.do(&w)
			got := ""
			if r := w.unseen("n1-0123", now); r != nil {
				got = r.ResourceVersion
			}
			if got != tt.want {
				t.Errorf("got version %q, want %q", got, tt.want)
			}
			if (len(w.byName) != 0) != (tt.want != "") {
				t.Errorf("%d are remembered", len(w.byName))
			}
		})
	}
}
