// Package power is a small world in which the power of machines counts: a node that does not
// answer, its machine and BMC, its pod and volume, and Kubernetes, which believes the taint
// out-of-service. In it run the real remote runner and the real loop of the controller that sets the
// taint, several of each, in virtual time. A seed decides in which order their requests arrive, and
// what happens meanwhile. The tests look at invariant I10 of docs/design.md. The search of package sim
// does so, too, among all else that Nodemend does; here, one action alone is played, in a hundredth of
// the time.
//
// In a second one it is a node in maintenance, with the power of its machine and its lamp: there run
// what the remote runner does for that, and the loop of the controller that holds nodes. The tests look
// at I12.
package power
