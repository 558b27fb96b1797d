// Package ipmitool reaches a BMC through the command ipmitool, in-band or over the network
// (lanplus), as a transport of package device: it has ipmitool send raw commands, and hands
// on the bytes of the answers. It understands the versions 1.8.9 and later.
//
// While a BMC is read one ipmitool runs, "ipmitool exec", for all commands to a target: it
// has one session. Sensors of another controller or LUN have an ipmitool of their own.
package ipmitool
