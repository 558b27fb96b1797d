// Package vm boots a node for end-to-end tests that may be broken in every way: a
// virtual machine, in software, with the kernel of Debian, a real systemd as PID 1 and,
// as /dev/ipmi0, a BMC outside of it.
//
// It needs root, Debian, and its packages qemu-system-x86, systemd, dbus, ipmitool,
// busybox-static, e2fsprogs and xz-utils; ErrUnavailable says what is missing. The
// kernel is downloaded by apt-get once, and kept in the user's cache directory. All
// other programs inside are those of this machine.
//
// The machine boots from a disk of its own, so that what is written survives a reboot,
// and lies in a directory with all logs. It reaches this machine's loopback interface
// at HostAddress, and has no route to anything else. It dies with the test, however that
// ends.
//
// Tests that use it carry the build tag "e2e"; package vmtest keeps the logs of those
// that fail.
package vm
