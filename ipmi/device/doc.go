// Package device reads a BMC through the kernel's IPMI driver, as a source for
// package ipmi: no process is started, and what does not change is read once.
//
// Sensors of other management controllers than the BMC itself (satellites on
// the IPMB, or other LUNs) can't be reached by the driver's interface as it is used
// here; they are listed as not available.
package device
