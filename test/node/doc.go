// Package node runs a real Kubernetes node on this machine, for tests: a systemd as
// PID 1 of namespaces and control groups of its own, a containerd and a kubelet as
// units of it, and pods. It is registered with a control plane of package cluster.
//
// It needs root, Linux, and the Debian packages systemd, dbus, containerd, runc,
// containernetworking-plugins, busybox-static, iproute2 and util-linux.
//
// The node sees this machine's files through an overlay, so what is written inside goes
// nowhere. It has no network but what is inside: pods and programs of it reach the API
// server at its cluster IP and at its address outside, the API server reaches the kubelet,
// and the test what listens inside by [Node.DialContext]. Kernel parameters are out of its reach, and so is a
// reboot: what is written to the SysRq trigger, by pods too, is told by [Node.SysRq].
// It dies with the test, however that ends.
//
// Tests that use it carry the build tag "e2e".
package node
