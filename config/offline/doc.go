// Package offline validates the objects that people write, RemedyPolicy,
// RemediationBudget, NodeMaintenance and NodemendRemediationTemplate, without a cluster and by the API server's own
// rules: the same code reads the same CustomResourceDefinitions and applies the schema,
// the defaults and the CEL rules as a create request with strict field
// validation would. What is accepted here is accepted there.
//
// In addition every problem has a place in its file, and some mistakes that
// the API server cannot see are found: a label selector that no label can
// match, and two objects of one name.
package offline
