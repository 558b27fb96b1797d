//go:build integration

package deploy_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// people returns two who have all rights: olga, and one of system:masters.
func (s *scene) people() (olga, master client.Client) {
	return s.client(s.clusterAdmin()), s.client(clustertest.Shared(s).UserConfig("master", "system:masters"))
}

// annotates writes annotations; nil removes one. It leaves in obj what comes of it.
func (s *scene) annotates(who client.Client, obj client.Object, annotations map[string]any, more ...string) error {
	fields := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	for _, spec := range more {
		var changes map[string]any
		s.must(json.Unmarshal([]byte(spec), &changes))
		fields["spec"] = changes
	}
	patch, err := json.Marshal(fields)
	s.must(err)
	return who.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, patch))
}

func TestNobodyApprovesInTheNameOfAnother(t *testing.T) {
	s := newScene(t)
	olga, master := s.people()
	r := s.remediationOf(s.a)
	s.temporary(r)
	says := func(who client.Client, step, by any) func() error {
		return func() error {
			return s.annotates(who, r, map[string]any{v1alpha1.ApprovedStepAnnotation: step, v1alpha1.ApprovedByAnnotation: by})
		}
	}
	byHand := func(who client.Client, step any) func() error {
		return func() error { return s.annotates(who, r, map[string]any{v1alpha1.ApprovedStepAnnotation: step}) }
	}
	names := func(want string) {
		t.Helper()
		if got := r.ApprovedBy(); got != want {
			t.Errorf("approved by %q, want %q (%v)", got, want, r.Annotations)
		}
	}
	s.refused([]attempt{
		{"another's name", "olga may not write " + v1alpha1.ApprovedByAnnotation + "=2 master", says(olga, "2", "2 master")},
		{"another's, by system:masters", "master may not write", says(master, "2", "2 olga")},
		{"a name of another step", "olga may not write", says(olga, "2", "3 olga")},
		{"a name without a step", "olga may not write", says(olga, nil, "2 olga")},
		{"a name without what it is about", "olga may not write", says(olga, "2", "olga")},
	})
	s.must(olga.Status().Patch(s.ctx, r, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nodemend.dev/approved-step":"2","nodemend.dev/approved-by":"2 master"}}}`))))
	names("") // a write of the status changes no annotation
	s.must(says(olga, "2", "2 olga")())
	names("olga")
	s.must(s.annotates(master, r, map[string]any{"example.com/note": "x"})) // as a GitOps tool does: what stays is nobody's to answer for
	names("olga")
	s.must(byHand(master, "3")())
	names("")
	s.refused([]attempt{{"by hand what another has approved once", "kubectl annotate remediation " + r.Name + " " + v1alpha1.ApprovedByAnnotation + "-", byHand(master, "2")}})
	s.must(says(master, "2", nil)())
	names("")
	s.must(says(master, "2", "2 master")())
	names("master")
	s.must(says(olga, nil, nil)())
	names("")
}

func TestNobodyPausesInTheNameOfAnother(t *testing.T) {
	s := newScene(t)
	olga, master := s.people()
	budget := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "pause-" + utilrand.String(6)},
		Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: s.policy.Spec.NodeSelector},
	}
	s.temporary(budget)
	for _, obj := range []client.Object{budget, s.policy.DeepCopy()} {
		write := func(who client.Client, signature any, spec ...string) error {
			return s.annotates(who, obj, map[string]any{v1alpha1.PausedByAnnotation: signature}, spec...)
		}
		signed := func(after int64, by string) string {
			of := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{UID: obj.GetUID(), Generation: obj.GetGeneration() + after}}
			return v1alpha1.Signed(v1alpha1.Paused(of), by)
		}
		names := func(when, want string) {
			t.Helper()
			if got := v1alpha1.PausedBy(obj); got != want {
				t.Errorf("%s: %T is paused by %q, want %q (%v, generation %d)", when, obj, got, want, obj.GetAnnotations(), obj.GetGeneration())
			}
		}
		const pause, resume = `{"paused":true}`, `{"paused":false}`
		s.must(write(olga, nil, pause))
		names("olga has paused it by hand", "")
		refused := func(when string, who client.Client, signature string, spec ...string) {
			t.Helper()
			s.refused([]attempt{{obj.GetName() + ", " + when, "may not write " + v1alpha1.PausedByAnnotation, func() error { return write(who, signature, spec...) }}})
		}
		refused("in the name of another", olga, signed(0, "master"))
		refused("by system:masters", master, signed(0, "olga"))
		refused("for what somebody may yet write", olga, signed(1, "olga"))
		refused("for what has been", olga, signed(-1, "olga"))
		refused("with what it is about, in the name of another", olga, signed(1, "master"), resume)
		s.must(write(olga, signed(0, "olga")))
		names("olga has paused it", "olga")
		s.must(s.annotates(master, obj, map[string]any{"example.com/note": obj.GetResourceVersion()}))
		names("somebody has annotated it", "olga")
		s.must(s.annotates(master, obj, nil, resume))
		s.must(s.annotates(master, obj, nil, pause))
		names("another has resumed and paused it by hand", "")
		s.must(write(master, signed(1, "master"), `{"pauseReason":"storm"}`))
		names("with what it is about, in one request", "master")
		s.must(write(olga, "of-a-backup.7 jane"))
		names("the name of another object is nobody's", "")
	}
}

func TestAPausedBudgetIsCreatedWithItsNameOrThatOfABackup(t *testing.T) {
	s := newScene(t)
	olga, _ := s.people()
	for _, by := range []string{"", "of-a-backup.1 jane"} {
		budget := &v1alpha1.RemediationBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "pause-" + utilrand.String(6), Annotations: map[string]string{v1alpha1.PausedByAnnotation: by}},
			Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: s.policy.Spec.NodeSelector, Paused: true},
		}
		s.must(client.NewDryRunClient(olga).Create(s.ctx, budget))
		if got := v1alpha1.PausedBy(budget); got != "" {
			t.Errorf("%q names %q", by, got)
		}
	}
}
