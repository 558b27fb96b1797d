//go:build integration

package external

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// TestMain starts an API server of its own: what others put beside it, such as nodes of a control plane that
// is being upgraded, keeps actions from nodes.
func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, clustertest.Together()))
}

// patience is for hangs.
const patience = 5 * time.Minute

// A real API server takes what is written, finds out about a kind that comes later, and keeps an
// object until its finalizer is gone.
func TestAnActionIsCarriedOutOnARealAPIServer(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	scheme := runtime.NewScheme()
	g.Expect(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))).To(Succeed())
	c, err := client.New(clustertest.Shared(t).Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	create := func(obj client.Object) {
		g.Expect(c.Create(ctx, obj)).To(Succeed())
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(ctx), obj) })
	}
	one := step()
	one.External.TemplateRef.Namespace = "default"
	n := node()
	n.Name, n.UID = "external-1", ""
	status := n.Status
	create(n)
	n.Status = status
	g.Expect(c.Status().Update(ctx, n)).To(Succeed())
	p := policy()
	p.Name, p.UID, p.Spec.Steps = "external-p", "", []v1alpha1.Step{one}
	create(p)
	one = p.Spec.Steps[0] // as the API server has completed it
	hash, err := one.Hash()
	g.Expect(err).NotTo(HaveOccurred())
	r := remediation()
	r.Name, r.UID = "external-1-r", ""
	r.Spec.NodeName, r.Spec.NodeUID = n.Name, n.UID
	r.Spec.Policy = v1alpha1.PolicyReference{Name: p.Name, UID: p.UID}
	r.Spec.Steps, r.Spec.Match, r.Spec.Recovery = p.Spec.Steps, p.Spec.Match, p.Spec.Recovery
	r.Spec.Trigger = v1alpha1.Trigger{Type: "Broken", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	create(r)

	announce := func(name string) *v1alpha1.NodeAction {
		r.Status.Action, r.Status.Step, r.Status.Attempt = name, 1, 1
		g.Expect(c.Status().Update(ctx, r)).To(Succeed())
		g.Expect(attempt.By(&one).Start(ctx, c, attempt.Order{Name: name, Remediation: r, Step: 1, Number: 1, At: time.Now()})).To(Succeed())
		var a v1alpha1.NodeAction
		g.Expect(c.Get(ctx, client.ObjectKey{Name: name}, &a)).To(Succeed())
		g.Expect(a.Spec.StepHash).To(Equal(hash))
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(ctx), &a) })
		return &a
	}
	reconciler := &Reconciler{Client: c, Live: c, Clock: clock.RealClock{}}
	reconciler.Loop()
	look := func(a *v1alpha1.NodeAction) {
		_, err := reconciler.Reconcile(ctx, worker.Request(a.Name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
	}

	first := announce("external-1-r-1")
	look(first)
	g.Expect(first.Finished()).NotTo(BeNil())
	g.Expect(first.Finished().Reason).To(Equal(v1alpha1.ReasonStartFailed))
	g.Expect(first.Finished().Message).To(ContainSubstring("this cluster does not know the kind"))

	for _, kind := range []string{"SelfNodeRemediationTemplate", "SelfNodeRemediation"} {
		plural := strings.ToLower(kind) + "s"
		version := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: "v1alpha1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
		}
		if kind == selfNode {
			version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}
		create(&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".self-node-remediation.medik8s.io"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "self-node-remediation.medik8s.io", Scope: apiextensionsv1.NamespaceScoped,
				Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
			},
		})
	}
	made := template(nil)
	made.SetNamespace("default")
	g.Eventually(func() error { return c.Create(ctx, made.DeepCopy()) }).WithTimeout(patience).Should(Succeed())
	object := empty(&v1alpha1.ExternalObject{APIVersion: "self-node-remediation.medik8s.io/v1alpha1", Kind: selfNode, Namespace: "default", Name: n.Name})
	g.Eventually(func() error {
		return client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy()))
	}).
		WithTimeout(patience).Should(Succeed(), "the kind is served")

	second := announce("external-1-r-2")
	look(second)
	g.Expect(second.Finished()).To(BeNil(), "%+v", second.Status)
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	g.Expect(object.GetUID()).To(Equal(second.Status.External.Object.UID))
	g.Expect(object.GetOwnerReferences()).To(HaveLen(1))
	g.Expect(object.GetOwnerReferences()[0].UID).To(Equal(second.UID))

	object.SetFinalizers([]string{finalizer})
	g.Expect(c.Update(ctx, object)).To(Succeed())
	g.Expect(unstructured.SetNestedSlice(object.Object, []any{map[string]any{"type": processing, "status": "True", "reason": "remediationStarted"}}, "status", "conditions")).To(Succeed())
	g.Expect(c.Status().Update(ctx, object)).To(Succeed())
	look(second)
	g.Expect(second.Status.External.Said).To(Equal("Processing=True (remediationStarted)"))

	told := attempt.By(&one).Tell(second)
	g.Expect(told.Recall(ctx, c, attempt.Recall{Message: "the remediation was deleted", At: time.Now()})).To(Succeed())
	look(second) // tells it to stop
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	g.Expect(object.GetAnnotations()).To(HaveKey(timedOutAnnotation))
	g.Expect(unstructured.SetNestedSlice(object.Object, []any{map[string]any{"type": processing, "status": "False"}, map[string]any{"type": succeeded, "status": "False"}}, "status", "conditions")).To(Succeed())
	g.Expect(c.Status().Update(ctx, object)).To(Succeed())
	look(second) // writes down what it says
	look(second) // deletes it
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	g.Expect(object.GetDeletionTimestamp()).NotTo(BeNil())
	look(second)
	g.Expect(second.Finished()).To(BeNil(), "its finalizer is still there")
	g.Expect(second.Status.External.Said).To(ContainSubstring(finalizer))

	object.SetFinalizers(nil)
	g.Expect(c.Update(ctx, object)).To(Succeed())
	g.Eventually(func() string {
		look(second)
		if f := second.Finished(); f != nil {
			return f.Reason
		}
		return ""
	}).WithTimeout(patience).Should(Equal(v1alpha1.ReasonFailed))
}
