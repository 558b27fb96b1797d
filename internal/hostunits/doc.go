// Package hostunits installs the detector or the runner as a systemd unit of the
// node, from a pod that stays beside it.
//
// The container runtime and the kubelet may be what is broken, so an agent that is
// a pod may not start when it is needed. The unit needs neither. What it needs from
// the cluster is a token, which the kubelet renews in the pod; the pod copies it to
// the host. While the pod is away the agent goes on with the last token, until that
// has expired or the pod's object has been deleted for a minute.
package hostunits
