// Package loopback chooses addresses at which programs under test listen.
package loopback

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Held is a TCP port on 127.0.0.1 that the system gives to nobody else until it is released.
// A socket holds it, which does not listen. A port that is only chosen, and free a moment
// later, is sooner or later another's.
type Held struct {
	Port   int
	socket int
}

// Hold holds a port on which those can listen who set the socket option, too: SO_REUSEADDR,
// as Go does, or SO_REUSEPORT.
func Hold(option int) (Held, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Held{}, fmt.Errorf("holding a port on 127.0.0.1: %w", err)
	}
	port, err := bindAny(socket, option)
	if err != nil {
		return Held{}, errors.Join(fmt.Errorf("holding a port on 127.0.0.1: %w", err), unix.Close(socket))
	}
	return Held{port, socket}, nil
}

func bindAny(socket, option int) (port int, err error) {
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, option, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return address.(*unix.SockaddrInet4).Port, nil
}

// Release lets the system give the port to others.
func (h Held) Release() error { return unix.Close(h.socket) }

// Port holds a port until the test ends, for a program that sets SO_REUSEADDR.
func Port(t testing.TB) int {
	t.Helper()
	held, err := Hold(unix.SO_REUSEADDR)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Release() })
	return held.Port
}

// Address returns 127.0.0.1 with a [Port].
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
}
