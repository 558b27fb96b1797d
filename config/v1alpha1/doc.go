// Package v1alpha1 holds the API kinds of nodemend.dev/v1alpha1: what people
// declare (RemedyPolicy, RemediationBudget) and the records in which the
// controller and the runners meet (Remediation, NodeAction).
//
// All kinds are cluster-scoped. What a field accepts is enforced by the API
// server through the schema and the CEL rules generated from the markers here;
// `nodemend policy check` applies the same rules offline.
//
// +kubebuilder:object:generate=true
// +groupName=nodemend.dev
package v1alpha1
