// Package remote reads a BMC over the network, as a transport of package device: commands go
// by sessions of package lan, IPMI 2.0. While a BMC is read there is one session; it ends when
// the BMC rests.
package remote
