// Package containerruntime checks the container runtime over its Container
// Runtime Interface (CRI, k8s.io/cri-api runtime/v1).
//
// A run makes three calls at once on one connection, all with the same deadline:
// Status, which says whether the runtime considers itself ready, and
// ListPodSandbox and ListContainers without a filter, which is what a relist of
// the kubelet's PLEG begins with and what blocks when the runtime's locks or its
// store do. So a stall shows within seconds; the kubelet reports it after two to
// four minutes.
package containerruntime
