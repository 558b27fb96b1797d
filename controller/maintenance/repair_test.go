package maintenance

import (
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const veto, vetoMark = "karpenter.sh/do-not-repair", "nodemend.dev/repair-held-for"

// karpenters is a node that Karpenter may repair, with these annotations.
func karpenters(cordoned bool, annotations ...map[string]string) *corev1.Node {
	all := map[string]string{"other": "stays"}
	for _, a := range annotations {
		maps.Copy(all, a)
	}
	node := nodeWith(cordoned, all)
	node.Labels = map[string]string{"karpenter.sh/nodepool": "p"}
	return node
}

func held(value string) map[string]string { return map[string]string{veto: value, vetoMark: "dimm"} }

func TestKarpenterIsForbiddenToRepairANodeAsLongAsItIsOut(t *testing.T) {
	bare := karpenters(false)
	bare.Annotations = nil
	const (
		cordons = `[{"op":"test","path":"/metadata/uid","value":"u"},` +
			`{"op":"test","path":"/spec/unschedulable","value":null},{"op":"add","path":"/spec/unschedulable","value":true},`
		marks    = `{"op":"add","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"dimm"}`
		forbids  = `{"op":"test","path":"/metadata/annotations/karpenter.sh~1do-not-repair","value":null},{"op":"add","path":"/metadata/annotations/karpenter.sh~1do-not-repair","value":"true"},{"op":"add","path":"/metadata/annotations/nodemend.dev~1repair-held-for","value":"dimm"}`
		unmarks  = `{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"dimm"},{"op":"remove","path":"/metadata/annotations/nodemend.dev~1cordoned-for"},`
		releases = `{"op":"test","path":"/metadata/annotations/nodemend.dev~1repair-held-for","value":"dimm"},{"op":"remove","path":"/metadata/annotations/nodemend.dev~1repair-held-for"}`
		permits  = `,{"op":"test","path":"/metadata/annotations/karpenter.sh~1do-not-repair","value":"true"},{"op":"remove","path":"/metadata/annotations/karpenter.sh~1do-not-repair"}`
		uncordon = `{"op":"remove","path":"/spec/unschedulable"},`
	)
	for _, tt := range []struct {
		name  string
		patch []operation
		want  string
	}{
		{"with the cordon", cordonPatch(karpenters(false), "dimm", true), cordons + marks + "," + forbids + "]"},
		{"without annotations", cordonPatch(bare, "dimm", true), cordons + `{"op":"test","path":"/metadata/annotations","value":null},` +
			`{"op":"add","path":"/metadata/annotations","value":{"karpenter.sh/do-not-repair":"true","nodemend.dev/cordoned-for":"dimm","nodemend.dev/repair-held-for":"dimm"}}]`},
		{"not of a remediation that has given up", cordonPatch(karpenters(false), "dimm", false), cordons + marks + "]"},
		{"not where a person has said so", cordonPatch(karpenters(false, map[string]string{veto: "true"}), "dimm", true), cordons + marks + "]"},
		{"nor against a person's word", cordonPatch(karpenters(false, map[string]string{veto: "false"}), "dimm", true), cordons + marks + "]"},
		{"nor a node of somebody else", cordonPatch(nodeWith(false, map[string]string{"other": "stays"}), "dimm", true), cordons + marks + "]"},
		{"later", vetoPatch(karpenters(true, markedFor("dimm")), "dimm"), `[{"op":"test","path":"/metadata/uid","value":"u"},` +
			`{"op":"test","path":"/metadata/annotations/nodemend.dev~1cordoned-for","value":"dimm"},` + forbids + "]"},
		{"not under another's cordon", vetoPatch(karpenters(true), "dimm"), "null"},
		{"not twice", vetoPatch(karpenters(true, markedFor("dimm"), held("true")), "dimm"), "null"},
		{"not again if a person has taken it away", vetoPatch(karpenters(true, markedFor("dimm"), map[string]string{vetoMark: "dimm"}), "dimm"), "null"},

		{"it goes with the cordon", uncordonPatch(karpenters(true, markedFor("dimm"), held("true"))), "[" + unmarks + uncordon + releases + permits + "]"},
		{"and with a mark that somebody has taken away", uncordonPatch(karpenters(false, held("true"))), "[" + releases + permits + "]"},
		{"before, if all was in vain", liftPatch(karpenters(true, markedFor("dimm"), held("true"))), "[" + releases + permits + "]"},
		{"what a person has made of it stays", liftPatch(karpenters(true, markedFor("dimm"), held("false"))), "[" + releases + "]"},
		{"so does what a person has set again", liftPatch(annotatedBy(karpenters(true, held("true")), "kubectl-annotate")), "[" + releases + "]"},
		{"ours, as its manager says", liftPatch(annotatedBy(karpenters(true, held("true")), "nodemend-controller")), "[" + releases + permits + "]"},
		{"a person's was never ours", liftPatch(karpenters(true, map[string]string{veto: "true"})), "null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := marshalled(t, tt.patch); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// annotatedBy lets the node say who has set the annotation.
func annotatedBy(node *corev1.Node, by string) *corev1.Node {
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: by, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:karpenter.sh/do-not-repair":{}}}}`)},
	}
	return node
}

func TestANodeIsLeftToKarpenterWhenNothingIsLeftToDo(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	of := func(name string) *v1alpha1.NodeMaintenance {
		return &v1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: "m-" + name},
			Spec:       v1alpha1.NodeMaintenanceSpec{Remediation: &v1alpha1.RemediationReference{Name: name, UID: "uid"}},
		}
	}
	remediation := func(name string, change func(*v1alpha1.Remediation)) client.Object {
		r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
		change(r)
		return r
	}
	progress := func(reason string) func(*v1alpha1.Remediation) {
		return func(r *v1alpha1.Remediation) {
			r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Reason: reason}}
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		remediation("acts", progress(v1alpha1.ReasonActing)),
		remediation("waits", progress(v1alpha1.ReasonInMaintenance)),
		remediation("exhausted", progress(v1alpha1.ReasonExhausted)),
		remediation("stopped", progress(v1alpha1.ReasonStopped)),
		remediation("over", func(r *v1alpha1.Remediation) { r.Status.EndTime = &metav1.Time{Time: time.Unix(1, 0)} }),
		remediation("another", func(r *v1alpha1.Remediation) { r.UID = "another-uid" }),
	).Build()
	// The cache has one of this name from before.
	behind := fake.NewClientBuilder().WithScheme(scheme).WithObjects(remediation("acts", func(r *v1alpha1.Remediation) { r.UID = "former" })).Build()
	person := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "person"}}
	for name, tt := range map[string]struct {
		holders []*v1alpha1.NodeMaintenance
		want    string
	}{
		"nobody":                           {nil, ""},
		"a person":                         {[]*v1alpha1.NodeMaintenance{person}, "person"},
		"an action":                        {[]*v1alpha1.NodeMaintenance{of("acts")}, "m-acts"},
		"a step maintenance":               {[]*v1alpha1.NodeMaintenance{of("waits")}, "m-waits"},
		"all was in vain":                  {[]*v1alpha1.NodeMaintenance{of("exhausted")}, ""},
		"its driver has told to stop":      {[]*v1alpha1.NodeMaintenance{of("stopped")}, ""},
		"a tombstone's, for people to end": {[]*v1alpha1.NodeMaintenance{of("over")}, ""},
		"a remediation that is gone":       {[]*v1alpha1.NodeMaintenance{of("gone"), of("another")}, ""},
		"one of several":                   {[]*v1alpha1.NodeMaintenance{of("exhausted"), of("acts")}, "m-acts"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cache := range []client.Client{c, behind} {
				got := ""
				switch m, err := (&Reconciler{Client: cache, Live: c}).busy(t.Context(), cache, tt.holders); {
				case err != nil:
					t.Fatal(err)
				case m != nil:
					got = m.Name
				}
				if got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// A cache that is behind shows the maintenance before, which has nothing left to do, and not the one for which the repair
// is forbidden.
func TestWhatIsForbiddenForAMaintenanceThatTheCacheDoesNotShowStays(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	former := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "former"},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: "w17", Remediation: &v1alpha1.RemediationReference{Name: "gone", UID: "uid"}},
	}
	own := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "dimm"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "w17"}}
	ended := own.DeepCopy()
	ended.Finalizers, ended.DeletionTimestamp = []string{v1alpha1.MaintenanceFinalizer}, &metav1.Time{Time: time.Unix(1, 0)}
	for name, tt := range map[string]struct {
		live   []client.Object
		lifted bool
	}{
		"it holds the node": {[]client.Object{own}, false},
		"it has ended":      {[]client.Object{ended}, true},
		"it is gone":        {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := karpenters(true, markedFor("dimm"), held("true"))
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(tt.live, node)...).Build()
			if err := (&Reconciler{Client: c, Live: c}).repair(t.Context(), node, []*v1alpha1.NodeMaintenance{former}); err != nil {
				t.Fatal(err)
			}
			var now corev1.Node
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), &now); err != nil {
				t.Fatal(err)
			}
			if vetoed(&now) == tt.lifted {
				t.Errorf("it has %v", now.Annotations)
			}
		})
	}
}

// A cache that is behind shows a remediation as exhausted that a person lets go on.
func TestWhatIsForbiddenForARemediationThatGoesOnAgainStays(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "dimm"},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: "w17", Remediation: &v1alpha1.RemediationReference{Name: "r", UID: "uid"}},
	}
	for reason, lifted := range map[string]bool{v1alpha1.ReasonWaiting: false, v1alpha1.ReasonExhausted: true} {
		t.Run(reason, func(t *testing.T) {
			as := func(reason string) client.Client {
				r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "uid"}}
				r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Reason: reason}}
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(r, karpenters(true, markedFor("dimm"), held("true"))).Build()
			}
			cache, live := as(v1alpha1.ReasonExhausted), as(reason)
			node := karpenters(true, markedFor("dimm"), held("true"))
			if err := (&Reconciler{Client: cache, Live: live}).repair(t.Context(), node, []*v1alpha1.NodeMaintenance{m}); err != nil {
				t.Fatal(err)
			}
			var now corev1.Node
			if err := cache.Get(t.Context(), client.ObjectKeyFromObject(node), &now); err != nil { // where it is written
				t.Fatal(err)
			}
			if vetoed(&now) == lifted {
				t.Errorf("it has %v", now.Annotations)
			}
		})
	}
}
