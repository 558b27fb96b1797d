// Package deploy holds what is installed into a cluster. The CRDs are part of
// the binary, so that policies can be validated offline by the same rules.
package deploy

import "embed"

// CRDs holds crds/*.yaml, the CustomResourceDefinitions generated from
// config/v1alpha1.
//
//go:embed crds/*.yaml
var CRDs embed.FS

// RBAC holds namespace.yaml and rbac/*.yaml: each role's account and what it may
// do.
//
//go:embed namespace.yaml rbac/*.yaml
var RBAC embed.FS

// Admission holds admission/*.yaml, the ValidatingAdmissionPolicies that narrow
// what RBAC allows to the roles' accounts. They bind nobody else, except that
// only the controller may create NodeActions.
//
//go:embed admission/*.yaml
var Admission embed.FS

// Workloads holds workloads/*.yaml, the roles as pods.
//
//go:embed workloads/*.yaml
var Workloads embed.FS

// Samples holds samples/*.yaml, to start from.
//
//go:embed samples/*.yaml
var Samples embed.FS
