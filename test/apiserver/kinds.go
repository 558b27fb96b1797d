package apiserver

import (
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/crd"
)

// kind is a kind of object, with the objects of it.
type kind struct {
	// object is an empty one.
	object     client.Object
	resource   string
	namespaced bool
	// status tells whether the status is a subresource.
	status bool
	// copyStatus gives into the status of from; nil where there is none.
	copyStatus func(into, from client.Object)
	// sameSpec compares all but metadata and status, for the generation; nil where
	// there is no generation.
	sameSpec func(a, b client.Object) bool
	// fields are what can be selected by, beside name and namespace.
	fields map[string]func(client.Object) string
	// written by people: then Trusting servers validate it, too.
	byPeople bool
	// capped by CEL rules that look at the status: then Trusting servers apply these.
	capped bool

	gvk     schema.GroupVersionKind
	rules   *crd.Rules // nil for the kinds of Kubernetes
	objects map[types.NamespacedName]client.Object
	// sorted are the objects by their names, as a slice of their type; nil: nobody has asked since the last write.
	sorted any
	log    []Event
	// compacted is the version up to which the log has gone.
	compacted uint64
}

// table has what is served.
func table() []kind {
	field := func(name string, value func(client.Object) string) map[string]func(client.Object) string {
		return map[string]func(client.Object) string{name: value}
	}
	return []kind{
		{
			object: &corev1.Node{}, resource: "nodes", status: true,
			copyStatus: func(into, from client.Object) { into.(*corev1.Node).Status = from.(*corev1.Node).Status },
			fields: field("spec.unschedulable", func(o client.Object) string {
				return strconv.FormatBool(o.(*corev1.Node).Spec.Unschedulable)
			}),
		},
		{
			object: &corev1.Pod{}, resource: "pods", namespaced: true, status: true,
			copyStatus: func(into, from client.Object) { into.(*corev1.Pod).Status = from.(*corev1.Pod).Status },
			sameSpec:   func(a, b client.Object) bool { return equal(&a.(*corev1.Pod).Spec, &b.(*corev1.Pod).Spec) },
			fields:     field("spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }),
		},
		{object: &corev1.Namespace{}, resource: "namespaces", status: true, copyStatus: func(into, from client.Object) {
			into.(*corev1.Namespace).Status = from.(*corev1.Namespace).Status
		}},
		{object: &corev1.Event{}, resource: "events", namespaced: true},
		{object: &eventsv1.Event{}, resource: "events", namespaced: true},
		{object: &coordinationv1.Lease{}, resource: "leases", namespaced: true},
		{
			object: &storagev1.VolumeAttachment{}, resource: "volumeattachments", status: true,
			copyStatus: func(into, from client.Object) {
				into.(*storagev1.VolumeAttachment).Status = from.(*storagev1.VolumeAttachment).Status
			},
		},
		{
			object: &policyv1.PodDisruptionBudget{}, resource: "poddisruptionbudgets", namespaced: true, status: true,
			copyStatus: func(into, from client.Object) {
				into.(*policyv1.PodDisruptionBudget).Status = from.(*policyv1.PodDisruptionBudget).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*policyv1.PodDisruptionBudget).Spec, &b.(*policyv1.PodDisruptionBudget).Spec)
			},
		},
		{
			object: &v1alpha1.RemedyPolicy{}, resource: "remedypolicies", status: true, byPeople: true,
			copyStatus: func(into, from client.Object) {
				into.(*v1alpha1.RemedyPolicy).Status = from.(*v1alpha1.RemedyPolicy).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.RemedyPolicy).Spec, &b.(*v1alpha1.RemedyPolicy).Spec)
			},
		},
		{
			object: &v1alpha1.RemediationBudget{}, resource: "remediationbudgets", status: true, byPeople: true, capped: true,
			copyStatus: func(into, from client.Object) {
				into.(*v1alpha1.RemediationBudget).Status = from.(*v1alpha1.RemediationBudget).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.RemediationBudget).Spec, &b.(*v1alpha1.RemediationBudget).Spec)
			},
		},
		{
			object: &v1alpha1.Remediation{}, resource: "remediations", status: true,
			copyStatus: func(into, from client.Object) {
				into.(*v1alpha1.Remediation).Status = from.(*v1alpha1.Remediation).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.Remediation).Spec, &b.(*v1alpha1.Remediation).Spec)
			},
			fields: field("spec.nodeName", func(o client.Object) string { return o.(*v1alpha1.Remediation).Spec.NodeName }),
		},
		{
			object: &v1alpha1.NodeAction{}, resource: "nodeactions", status: true, capped: true,
			copyStatus: func(into, from client.Object) {
				into.(*v1alpha1.NodeAction).Status = from.(*v1alpha1.NodeAction).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.NodeAction).Spec, &b.(*v1alpha1.NodeAction).Spec)
			},
			fields: map[string]func(client.Object) string{
				"spec.nodeName":    func(o client.Object) string { return o.(*v1alpha1.NodeAction).Spec.NodeName },
				"spec.remediation": func(o client.Object) string { return o.(*v1alpha1.NodeAction).Spec.Remediation },
			},
		},
		{
			object: &v1alpha1.NodeMaintenance{}, resource: "nodemaintenances", status: true, byPeople: true,
			copyStatus: func(into, from client.Object) {
				into.(*v1alpha1.NodeMaintenance).Status = from.(*v1alpha1.NodeMaintenance).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.NodeMaintenance).Spec, &b.(*v1alpha1.NodeMaintenance).Spec)
			},
			fields: field("spec.nodeName", func(o client.Object) string { return o.(*v1alpha1.NodeMaintenance).Spec.NodeName }),
		},
		{
			object: &v1alpha1.NodemendRemediation{}, resource: "nodemendremediations", namespaced: true, status: true, byPeople: true,
			copyStatus: func(into, from client.Object) {
				into.(*v1alpha1.NodemendRemediation).Status = from.(*v1alpha1.NodemendRemediation).Status
			},
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.NodemendRemediation).Spec, &b.(*v1alpha1.NodemendRemediation).Spec)
			},
		},
		{
			object: &v1alpha1.NodemendRemediationTemplate{}, resource: "nodemendremediationtemplates", namespaced: true, byPeople: true,
			sameSpec: func(a, b client.Object) bool {
				return equal(&a.(*v1alpha1.NodemendRemediationTemplate).Spec, &b.(*v1alpha1.NodemendRemediationTemplate).Spec)
			},
		},
	}
}
