package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// port is a TCP port on 127.0.0.1 that the system gives to nobody else until it
// is released. A child that sets SO_REUSEPORT can listen on it meanwhile, so
// between choosing the port and using it there is no race to lose.
type port struct {
	number int
	socket int
}

func reservePort() (port, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return port{}, fmt.Errorf("reserving a loopback port: %w", err)
	}
	number, err := bindAnyPort(socket)
	if err != nil {
		return port{}, fmt.Errorf("reserving a loopback port: %w", err)
	}
	return port{number: number, socket: socket}, nil
}

// bindAnyPort closes the socket when it fails.
func bindAnyPort(socket int) (number int, err error) {
	defer func() {
		if err != nil {
			_ = unix.Close(socket)
		}
	}()
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
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

func (p port) release() error {
	return unix.Close(p.socket)
}
