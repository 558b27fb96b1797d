// Package power reads and switches the power of machines from outside: by their BMC, or by
// what feeds them.
//
// A [Switch] says who its machine is whenever it is asked: the answer to "is it off?" is
// worth nothing if another machine has given it. So each operation names the machine it is
// for by its [UUID], and a Switch of another machine does nothing.
//
// The packages below have a Switch each: ipmilan for IPMI 2.0 over LAN, redfish, and
// program for a program of the user's with the convention of fence-agents. Package proof
// makes of their readings the proof that a machine was off.
package power
