//go:build integration

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// nodeHealthCheck drives Nodemend as NodeHealthCheck does: it knows nothing of its kinds but what the contract
// says of all remediators, and takes nothing for an answer that does not keep that.
type nodeHealthCheck struct {
	s        *scene
	template *unstructured.Unstructured
}

// driven makes the scene's policy one without match, with a template for it, and the node Ready.
func (s *scene) driven(steps ...v1alpha1.Step) *nodeHealthCheck {
	s.t.Helper()
	s.create(&v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: s.labels()},
		Spec: v1alpha1.RemedyPolicySpec{
			NodeSelector: s.selector(), Steps: steps, DelayAfterJoin: &v1alpha1.Duration{}, Cooldown: &v1alpha1.Duration{},
		},
	})
	t := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"policy": s.name}}},
	}}
	t.SetGroupVersionKind(schema.FromAPIVersionAndKind("nodemend.dev/v1alpha1", "NodemendRemediationTemplate"))
	t.SetNamespace("default")
	t.SetName(s.name)
	s.create(t)
	now := time.Now()
	s.Expect(s.report(s.ctx, s.nodes[0], "Ready", corev1.ConditionTrue, now, now.Add(-time.Hour))).To(Succeed())
	return &nodeHealthCheck{s, t}
}

// object is an empty one of the node.
func (d *nodeHealthCheck) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	gvk := d.template.GroupVersionKind()
	o.SetGroupVersionKind(gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "Template")))
	o.SetNamespace(d.template.GetNamespace())
	o.SetName(d.s.nodes[0])
	return o
}

// remediate creates the object of the node (internal/controller/resources/manager.go of
// node-healthcheck-operator).
func (d *nodeHealthCheck) remediate() {
	spec, found, err := unstructured.NestedMap(d.template.Object, "spec", "template", "spec")
	d.s.Expect(err).NotTo(HaveOccurred())
	d.s.Expect(found).To(BeTrue())
	o := d.object()
	o.Object["spec"] = spec
	o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "node-healthcheck-controller"})
	o.SetAnnotations(map[string]string{
		"remediation.medik8s.io/node-name": d.s.nodes[0], "remediation.medik8s.io/template-name": d.template.GetName(),
	})
	d.s.create(o)
}

var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// told is Processing, Succeeded and the reason of Processing; "gone" once the object is.
func (d *nodeHealthCheck) told() string {
	o := d.object()
	err := d.s.client.Get(d.s.ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	d.s.Expect(err).NotTo(HaveOccurred())
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	d.s.Expect(err).NotTo(HaveOccurred())
	statuses, reasons := map[string]string{}, map[string]string{}
	for _, item := range list {
		c := item.(map[string]any)
		kind, reason := c["type"].(string), c["reason"].(string)
		statuses[kind], reasons[kind] = c["status"].(string), reason
		d.s.Expect(reason).To(MatchRegexp(reasonPattern.String()))
		_, err := time.Parse(time.RFC3339, c["lastTransitionTime"].(string))
		d.s.Expect(err).NotTo(HaveOccurred())
	}
	if len(list) == 0 {
		return ""
	}
	d.s.Expect(statuses).To(HaveKeyWithValue("PermanentNodeDeletionExpected", "False"))
	return fmt.Sprintf("%s/%s/%s", statuses["Processing"], statuses["Succeeded"], reasons["Processing"])
}

// timeOut tells that its time is over.
func (d *nodeHealthCheck) timeOut() {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"remediation.medik8s.io/nhc-timed-out":%q}}}`, time.Now().UTC().Format(time.RFC3339))
	d.s.Expect(d.s.client.Patch(d.s.ctx, d.object(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// healthy deletes the object, since the node is.
func (d *nodeHealthCheck) healthy() {
	d.s.Expect(d.s.client.Delete(d.s.ctx, d.object())).To(Succeed())
}

func TestNodeHealthCheckHasANodeHealed(t *testing.T) {
	s := newScene(t, "driven-healed", 1, "1")
	d := s.driven(shell("echo ran >> " + s.path("runs")))
	s.startRunners()
	s.startController()
	d.remediate()
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(1))
	s.Eventually(d.told).Should(Equal("True/Unknown/Verifying"))
	d.healthy()
	s.Eventually(d.told).Should(Equal("gone"))
	s.Expect(s.state(s.nodes[0])).To(Equal(v1alpha1.ReasonRecovered))
	s.expectHistory("1/1 Succeeded")
	s.Eventually(s.permits).Should(BeEmpty())
}

func TestNodeHealthCheckIsToldAtOnceThatAllWasInVain(t *testing.T) {
	s := newScene(t, "driven-exhausted", 1, "1")
	d := s.driven(shell("echo ran >> " + s.path("runs")))
	s.startRunners()
	s.startController()
	d.remediate()
	s.Eventually(d.told).Should(Equal("False/False/Exhausted"))
	s.Expect(s.lines("runs")).To(Equal(1))
	d.healthy()
	s.Eventually(d.told).Should(Equal("gone"))
}

func TestNodeHealthCheckTellsToStop(t *testing.T) {
	s := newScene(t, "driven-stopped", 1, "1")
	s.touch("hold")
	d := s.driven(
		shell(fmt.Sprintf("echo ran >> %s; while [ -e %s ]; do sleep 0.1; done", s.path("runs"), s.path("hold"))),
		shell("echo ran >> "+s.path("runs")),
	)
	s.startRunners()
	s.startController()
	d.remediate()
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(1))
	d.timeOut()
	s.Eventually(d.told).Should(Equal("True/Unknown/StillRunning"))
	s.remove("hold")
	s.Eventually(d.told).Should(Equal("False/False/Stopped"))
	d.healthy()
	s.Eventually(d.told).Should(Equal("gone"))
	s.Expect(s.lines("runs")).To(Equal(1))
}

func TestNodeHealthCheckNamesAPolicyThatIsNotForIt(t *testing.T) {
	s := newScene(t, "driven-refused", 1, "1")
	d := s.driven(shell("true"))
	s.startController()
	var p v1alpha1.RemedyPolicy
	s.Expect(s.client.Get(s.ctx, client.ObjectKey{Name: s.name}, &p)).To(Succeed())
	p.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Other", Status: corev1.ConditionTrue}}
	s.Expect(s.client.Update(s.ctx, &p)).To(Succeed())
	d.remediate()
	s.Eventually(d.told).Should(Equal("False/False/" + v1alpha1.ReasonPolicyHasMatch))
	d.healthy()
	s.Eventually(d.told).Should(Equal("gone"))
	s.Expect(s.remediations(s.nodes[0])).To(BeEmpty())
}
