// Package deploy holds what is installed into a cluster. The CRDs are part of
// the binary, so that policies can be validated offline by the same rules.
package deploy

import "embed"

// CRDs holds chart/crds/*.yaml, the CustomResourceDefinitions generated from
// config/v1alpha1.
//
//go:embed chart/crds/*.yaml
var CRDs embed.FS

// Policies holds policies/*.yaml, the policies worth having; all of them DryRun.
//
//go:embed policies/*.yaml
var Policies embed.FS

// Samples holds samples/*.yaml, to start from.
//
//go:embed samples/*.yaml
var Samples embed.FS
