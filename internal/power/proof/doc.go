// Package proof cuts the power of a machine whose node does not answer, and proves that it
// was off: so the boot in which the node's pods ran is over, and nothing of it writes any
// more.
//
// [Cycle] decides what is done next, from what was read and when. It reads no clock and asks
// nobody: [Run] does that for it. Each of its steps may be repeated, and a runner that dies
// in between goes on from the [Progress] that was kept and what it reads then.
//
// A BMC may still say on right after it has acknowledged an off, and hung machines take
// seconds. So power is off when it was read off twice in a row, some seconds apart, from a
// switch whose GUID is that of the machine. There is no other way to get a [Proof].
package proof
