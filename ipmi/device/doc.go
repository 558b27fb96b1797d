// Package device reads a BMC by its commands, as a source for package ipmi, and decodes the
// answers itself. What does not change is read once.
//
// What carries the commands is a Transport: the kernel's driver (Open), or another. Sensors
// of other management controllers than the BMC itself (satellites on the IPMB), and those
// of other LUNs, are read if it is a Router, or else listed as not available: the driver's
// interface, as it is used here, can't reach them.
package device
