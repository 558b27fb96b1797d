package attempt

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Nothing else tells of a machine that is off, or of another program at work; of what runs on a node,
// the node's ledger does.
func TestOnlyAnActionThatAloneTellsWhatGoesOnIsKeptWhenItIsDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		step v1alpha1.Step
		want []string
	}{
		"power cycle": {v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}}, []string{v1alpha1.PowerFinalizer}},
		"external":    {v1alpha1.Step{External: &v1alpha1.ExternalRemedy{}}, []string{v1alpha1.ExternalFinalizer}},
		"replace":     {v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}}, []string{v1alpha1.PowerFinalizer}},
		"reboot":      {v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}}, nil},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme).Build()
		r := &v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{Steps: []v1alpha1.Step{tt.step}}}
		if err := By(r.Step(1)).Start(t.Context(), c, Order{Name: "a", Remediation: r, Step: 1, Number: 1, At: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
		var action v1alpha1.NodeAction
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &action); err != nil || !slices.Equal(action.Finalizers, tt.want) {
			t.Errorf("%s: got %v, %v", name, action.Finalizers, err)
		}
	}
}
