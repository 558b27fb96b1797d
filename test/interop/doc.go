// Package interop runs Nodemend beside real programs of others, on a control plane of its own for each:
// Cluster API's controllers and Karpenter, which test/interop/build builds from their modules. What is below
// them is played: machines, by a provider that makes nodes of kwok, and on those the detector and a
// runner that has no machine to reboot.
package interop
