// Package ipmi reads the health of a server from its baseboard management
// controller (BMC), as the Intelligent Platform Management Interface
// Specification, second generation, v2.0 (IPMI 2.0) describes it.
package ipmi
