package match

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// A cache that is behind shows policies that are no more.
func TestAPolicyThatIsNoMoreStartsNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.RemedyPolicy) // nil: deleted
		starts int
	}{
		"as it was":     {func(*v1alpha1.RemedyPolicy) {}, 1},
		"deleted":       {nil, 0},
		"created again": {func(p *v1alpha1.RemedyPolicy) { p.UID = "another" }, 0},
		"edited":        {func(p *v1alpha1.RemedyPolicy) { p.Generation++ }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cached := policyFor("A", 0)
			cached.UID, cached.Generation = "uid", 3
			c := fake.NewClientBuilder().WithScheme(scheme).Build()
			if tt.change != nil {
				live := cached.DeepCopy()
				tt.change(live)
				if err := c.Create(t.Context(), live); err != nil {
					t.Fatal(err)
				}
			}
			r := &Reconciler{Client: c, Live: c, Created: func(*v1alpha1.Remediation) {}}
			sick := node(nil, since("A", "True", time.Second))
			if err := r.start(t.Context(), cached, sick, &v1alpha1.Trigger{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(now)}, nil); err != nil {
				t.Fatal(err)
			}
			var all v1alpha1.RemediationList
			if err := c.List(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			if len(all.Items) != tt.starts {
				t.Errorf("it started %d, want %d", len(all.Items), tt.starts)
			}
		})
	}
}
