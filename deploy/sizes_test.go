//go:build integration

package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestNoTokenOfANodeWritesMoreThanItsRoleNeeds(t *testing.T) {
	s := newScene(t)
	runner, detector := s.client(s.account("runner", s.a)), s.client(s.account("detector", s.a))
	long := strings.Repeat("x", 1<<20)
	var many []string
	for i := range 1200 {
		many = append(many, fmt.Sprintf(`{"type":"Many%d","status":"False"}`, i))
	}
	s.refused([]attempt{
		{"1,200 conditions", "may not have more than 100 conditions", func() error {
			return patchStatus(s.ctx, detector, s.a.Name, `{"status":{"conditions":[`+strings.Join(many, ",")+`]}}`)
		}},
		{"a message of 1 MiB", "a message of 4096 characters at most", func() error {
			return patchStatus(s.ctx, detector, s.a.Name, `{"status":{"conditions":[{"type":"`+fault+`","status":"True","message":"`+long+`"}]}}`)
		}},
	})
	s.must(patchStatus(s.ctx, detector, s.a.Name, condition(fault, "False")))

	for name, c := range map[string]v1alpha1.Claim{
		"a runner's ID": {RunnerID: long, BootID: "b"}, "a boot ID": {RunnerID: "a", BootID: long}, "an invocation ID": {RunnerID: "a", BootID: "b", InvocationID: long},
	} {
		action := s.actionA.DeepCopy()
		c.Time, c.Remedy = metav1.Now(), v1alpha1.RemedyCommand
		action.Status.Claim = &c
		if err := runner.Status().Update(s.ctx, action); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Too long") {
			t.Errorf("%s of 1 MiB: %.300v", name, err)
		}
	}
	s.must(claim(s.ctx, runner, s.actionA.DeepCopy()))
}

func TestALongConditionOfSomebodyElseIsNoObstacle(t *testing.T) {
	s := newScene(t)
	s.must(patchStatus(s.ctx, s.admin, s.a.Name, `{"status":{"conditions":[{"type":"Others","status":"True","message":"`+strings.Repeat("x", 20000)+`"}]}}`))
	s.must(patchStatus(s.ctx, s.client(s.account("detector", s.a)), s.a.Name, condition(fault, "False")))
}

func TestEventsNameTheirOwnWriterAndNode(t *testing.T) {
	s := newScene(t)
	for _, role := range []string{"runner", "detector"} {
		c := s.client(s.account(role, s.a))
		with := func(change func(*corev1.Event)) func() error {
			return func() error {
				event := eventAbout("Node", s.a.Name)
				change(event)
				return c.Create(s.ctx, event)
			}
		}
		s.refused([]attempt{
			{role + " related", "without a related object", with(func(e *corev1.Event) { e.Related = &corev1.ObjectReference{Kind: "Node", Name: s.b.Name} })},
			{role + " source of B", "in the name of another node", with(func(e *corev1.Event) { e.Source.Host = s.b.Name })},
			{role + " instance of B", "in the name of another node", with(func(e *corev1.Event) { e.ReportingInstance = s.b.Name })},
			{role + " as kubelet", "in the name of somebody else", with(func(e *corev1.Event) { e.Source.Component = "kubelet" })},
			{role + " as the controller", "in the name of somebody else", with(func(e *corev1.Event) { e.ReportingController = "nodemend-controller" })},
		})
		s.must(with(func(e *corev1.Event) {
			e.Source = corev1.EventSource{Component: "nodemend-" + role, Host: s.a.Name}
			e.ReportingController, e.ReportingInstance = "nodemend-"+role, s.a.Name
		})())
		foreign := eventAbout("Node", s.a.Name)
		s.must(c.Create(s.ctx, foreign))
		s.refused([]attempt{{role + " changes the writer", "in the name of somebody else", func() error {
			return c.Patch(s.ctx, foreign, client.RawPatch("application/merge-patch+json", []byte(`{"source":{"component":"kubelet"}}`)))
		}}})
	}
}

func TestNoEventIsLargeByItsManagedFields(t *testing.T) {
	s := newScene(t)
	long := strings.Repeat("x", 1<<19)
	var many, most []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"f:many-%d":{}`, i))
		most = append(most, fmt.Sprintf(`"f:most-%d":{%s}`, i, many[i]))
	}
	for _, role := range []string{"runner", "detector"} {
		c := s.client(s.account(role, s.a))
		var attempts []attempt
		for name, fields := range map[string]string{
			"a long name":             `{"f:` + long + `":{}}`,
			"a long name below":       `{"f:metadata":{"f:` + long + `":{}}}`,
			"a long name far below":   `{"f:metadata":{"f:labels":{"f:` + long + `":{}}}}`,
			"many names":              `{` + strings.Join(most, ",") + `}`,
			"many names below":        `{"f:metadata":{` + strings.Join(many, ",") + `}}`,
			"many names of one, more": `{"f:metadata":{"f:annotations":{` + strings.Join(many, ",") + `}}}`,
		} {
			attempts = append(attempts, attempt{role + ": " + name, "managed fields of events only", func() error {
				event, now, set := eventAbout("Node", s.a.Name), metav1.Now(), &metav1.FieldsV1{}
				set.SetRawString(fields)
				event.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: set,
				}}
				return c.Create(s.ctx, event)
			}})
		}
		s.refused(attempts)
	}
}
