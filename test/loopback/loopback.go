// Package loopback chooses addresses at which programs under test listen.
package loopback

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Port returns a TCP port on 127.0.0.1 that the system gives to nobody else until the
// test ends. Who sets SO_REUSEADDR can listen on it, as Go does: so does the socket that
// holds it, which does not listen. A port that is only chosen, and free a moment later, is
// sooner or later another's.
func Port(t testing.TB) int {
	t.Helper()
	port, err := reserve(t)
	if err != nil {
		t.Fatalf("reserving a port on 127.0.0.1: %v", err)
	}
	return port
}

// Address returns 127.0.0.1 with a [Port].
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
}

func reserve(t testing.TB) (port int, err error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	bound, ok := address.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("it is bound to %T", address)
	}
	return bound.Port, nil
}
