// Package machine proves that a node with a systemd, a BMC and a kernel of its own is
// healed, end to end: faults are made in a virtual machine, and what is looked at is
// what people would see.
//
// Detector and runner are units in the machine, with tokens of their DaemonSets' pods;
// the controller is a process here; both act under what deploy/install.yaml allows them.
// No kubelet runs in the machine. Its part is played here: as long as the machine answers
// and its cable is in, its Node is Ready and has the boot ID that the machine has told.
//
// Scenarios run beside each other, which takes a gigabyte of memory for each machine. Where
// something is repaired the API server is cut off from the machine for three minutes, in the
// middle of what is done.
//
// The tests carry the build tag "e2e": make e2e runs them. Each waits for what it says,
// and at most for as long as it says.
package machine
