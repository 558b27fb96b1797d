package loopback_test

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/test/loopback"
)

func TestWhoIsToldThePortCanListenOnIt(t *testing.T) {
	address := loopback.Address(t)
	for range 2 { // a program that is started again
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Somebody who takes any port, to listen on it or to connect from it, is not given this one
// although the system has no other for him.
func TestNobodyElseIsGivenThePort(t *testing.T) {
	port := loopback.Port(t)
	for _, reuse := range []int{0, 1} {
		for _, address := range [][4]byte{{127, 0, 0, 1}, {}} {
			socket := socketOf(t, port)
			if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, reuse); err != nil {
				t.Fatal(err)
			}
			if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: address}); !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("any port of %v was asked for, SO_REUSEADDR %d: %v", address, reuse, err)
			}
		}
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	there := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: listener.Addr().(*net.TCPAddr).Port}
	if err := unix.Connect(socketOf(t, port), there); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("connecting from any port: %v", err)
	}
}

// socketOf returns a socket to which the system can give no other port.
func socketOf(t *testing.T, port int) int {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	err = unix.SetsockoptInt(socket, unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, port<<16|port)
	if errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("needs Linux 6.3, to ask for ports out of a range")
	}
	if err != nil {
		t.Fatal(err)
	}
	return socket
}
