// Package ipmisim runs OpenIPMI's BMC simulator ipmi_sim as a server whose parts a
// test can break.
//
// The simulator answers on loopback only: over IPMI 2.0 LAN, as ipmitool speaks
// it, and to SendRecv, which speaks the interface that a virtual machine's /dev/ipmi0
// has. Attach makes it the BMC of such a machine. Faults of the chassis itself are beyond
// it: of the chassis only the power can be switched.
package ipmisim
