// Package node proves on real nodes that Nodemend heals them, end to end: a control
// plane, two nodes of package test/node with a real kubelet, containerd and systemd, and
// played neighbours. Nodemend is installed from its chart as docs/install.md says; its
// DaemonSets and Deployment are real pods of the image that is built here.
//
// The scenarios share that. Each makes its fault by itself, looks at what people would
// see, says what it waits for and how long at the most, and leaves healthy nodes behind.
//
// One takes ten minutes. It has a control plane and a node of its own and goes on beside
// the others, which come one after the other: begun before them, judged after them.
//
// The tests carry the build tag "e2e" and need what package test/node needs.
package node
