// Package kubelet runs a real kubelet on this machine, for tests: registered
// with a control plane of package cluster, on a container runtime that the test
// brings, usually package criserver's.
//
// It needs root and Linux, and leaves nothing on the machine, not even when the
// test is killed: the kubelet makes no cgroups and no iptables rules, and lives
// in a mount namespace of its own, in which what it writes outside of its
// directory, kernel parameters among it, goes nowhere. It can't run pods.
//
// Tests that use it carry the build tag "integration", since it needs the program
// that "make controlplane" downloads or builds.
package kubelet
