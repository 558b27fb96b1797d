// Package cluster starts and stops a real Kubernetes control plane on loopback
// ports, for tests and for the demo: etcd and kube-apiserver, and if asked
// for kube-controller-manager, kube-scheduler and kwok, whose nodes and pods
// exist in the API only.
//
// The programs come from bin/kubebuilder, which "make controlplane" fills. No
// child outlives the process that started it, not even one that is killed,
// which is why etcd and kube-apiserver are started here and not by
// controller-runtime's envtest: its children survive a killed test. The package
// needs Linux for that.
package cluster
