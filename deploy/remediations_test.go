//go:build integration

package deploy_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestARemediationThatIsStartedByHandSaysWhatItsPolicySays(t *testing.T) {
	s := newScene(t)
	person := s.client(s.clusterAdmin())
	s.awaitPolicy(person)
	var policy unstructured.Unstructured
	policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RemedyPolicy"))
	s.must(s.admin.Get(s.ctx, key(s.policy), &policy))
	start := func(change func(spec map[string]any)) func() error {
		return func() error {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.remediationOf(s.a))
			s.must(err)
			r := &unstructured.Unstructured{Object: fields}
			r.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Remediation"))
			spec := r.Object["spec"].(map[string]any)
			for _, field := range []string{"match", "steps", "recovery"} {
				spec[field], _, err = unstructured.NestedFieldCopy(policy.Object, "spec", field)
				s.must(err)
			}
			change(spec)
			return person.Create(s.ctx, r)
		}
	}
	first := func(spec map[string]any, list string) map[string]any { return spec[list].([]any)[0].(map[string]any) }
	const refusal = "does not say what RemedyPolicy "
	s.refused([]attempt{
		{"an invented step", refusal + s.policy.Name, start(func(spec map[string]any) {
			spec["steps"] = []any{map[string]any{"reboot": map[string]any{}}}
		})},
		{"another command", refusal, start(func(spec map[string]any) {
			first(spec, "steps")["command"].(map[string]any)["argv"] = []any{"/bin/false"}
		})},
		{"a step too many", refusal, start(func(spec map[string]any) {
			spec["steps"] = append(spec["steps"].([]any), map[string]any{"maintenance": map[string]any{"reason": "x"}})
		})},
		{"more attempts", refusal, start(func(spec map[string]any) { first(spec, "steps")["attempts"] = int64(3) })},
		{"another condition", refusal, start(func(spec map[string]any) { first(spec, "match")["type"] = "Ready" })},
		{"another time to hold", refusal, start(func(spec map[string]any) { first(spec, "match")["for"] = "2s" })},
		{"an early recovery", refusal, start(func(spec map[string]any) { spec["recovery"].(map[string]any)["healthyFor"] = "1s" })},
		{"what nobody has asked for", refusal, start(func(spec map[string]any) {
			delete(spec, "match")
			spec["request"] = map[string]any{"namespace": "default", "name": "x", "uid": "x"}
		})},
		{"a policy of that name", refusal, start(func(spec map[string]any) { spec["policy"].(map[string]any)["uid"] = "other" })},
	})
	s.must(start(func(map[string]any) {})())
}

func TestTheControllerDoesNotSpeakForPeople(t *testing.T) {
	s := newScene(t)
	leader := s.client(s.account("controller", s.b))
	r := s.remediationOf(s.a)
	s.must(leader.Create(s.ctx, r))
	annotate := func(c client.Client, annotation, value string) error {
		return c.Patch(s.ctx, r.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+annotation+`":`+value+`}}}`)))
	}
	refusal := func(annotation string) string {
		return "the controller may not write " + annotation + " of Remediation " + r.Name + ": only people may"
	}
	s.refused([]attempt{
		{"approve", refusal(v1alpha1.ApprovedStepAnnotation), func() error { return annotate(leader, v1alpha1.ApprovedStepAnnotation, `"1"`) }},
		{"retry", refusal(v1alpha1.RetryAnnotation), func() error { return annotate(leader, v1alpha1.RetryAnnotation, `"1"`) }},
		{"create what is approved", "the controller may not write " + v1alpha1.ApprovedStepAnnotation, func() error {
			approved := s.remediationOf(s.a)
			approved.ObjectMeta = metav1.ObjectMeta{Name: approved.Name, Annotations: map[string]string{v1alpha1.ApprovedStepAnnotation: "1"}}
			return leader.Create(s.ctx, approved)
		}},
	})
	s.must(annotate(s.client(s.clusterAdmin()), v1alpha1.ApprovedStepAnnotation, `"1"`))
	s.refused([]attempt{{"take an approval back", refusal(v1alpha1.ApprovedStepAnnotation), func() error { return annotate(leader, v1alpha1.ApprovedStepAnnotation, "null") }}})
	s.must(annotate(leader, "example.com/note", `"1"`))
}
