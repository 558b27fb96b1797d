// Package bmc is a BMC for tests: it answers the commands that read sensors, events and
// the chassis with the bytes that a real one would send, and fails as tests ask it
// to. It is driven by its Go methods, and reached behind the interface of the
// kernel's driver (BMC.Transport) or by ipmitool (BMC.ServeIPMItool).
//
// It shares no code with the packages that it tests. That its bytes mean what they
// should is checked by what ipmitool makes of them.
package bmc
