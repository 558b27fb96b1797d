// Package redfish reads a server by the Redfish service of its BMC (DMTF DSP0266, DSP0268): the
// health of its parts, who has made them, and the event log. It tells them in the terms of
// package ipmi, so that they are judged by the same rules.
//
// A part has two sensors, with the path of its resource: its health, by the generic table of
// severities (IPMI 2.0, table 42-2, type 0x07), and whether it is there. Drives have their
// predicted failure beside their presence; power supplies have their states as IPMI has them
// (table 42-3), so that a lost feed is known as one.
package redfish
