// Package systemd boots a real systemd on this machine, for tests: in namespaces
// and a control group of its own, with a message bus and nothing else.
//
// It needs root, Linux with control groups of version 2, and the Debian packages
// systemd, dbus and util-linux. It sees this machine's files through an overlay, so
// what is written inside goes nowhere, except below /run, which is a directory
// outside. Kernel parameters and the SysRq trigger are out of its reach. It dies
// with the test, however that ends.
//
// Tests that use it carry the build tag "integration"; package systemdtest lets the
// tests of a package share one.
package systemd
