package kubelet

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// isolation prepares the mount namespace that it is run in and becomes the
// program that its further arguments name. Its first is a directory.
//
// The kubelet makes directories below /var/lib/kubelet and /var/log whatever its
// configuration says, and sets kernel parameters: it gets empty file systems and
// copies.
const isolation = `
mkdir -p "$0/sysctl"
for parameter in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	copy=$0/sysctl/$(basename $parameter)
	cat /proc/sys/$parameter >"$copy"
	mount -n --bind "$copy" /proc/sys/$parameter
done
mount -n -t tmpfs tmpfs /var/lib
mount -n -t tmpfs tmpfs /var/log
exec "$@"
`

// isolated returns a command line that runs, in a mount namespace of its own, the
// program whose path and arguments are appended.
func isolated(dir string) []string { return []string{"/bin/sh", "-ec", isolation, dir} }

// nodeIP returns an address that a kubelet takes for its --node-ip: one of this
// machine but not a loopback one.
func nodeIP() (net.IP, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("choosing the kubelet's node IP: %w", err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return network.IP, nil
		}
	}
	return nil, errors.New("choosing the kubelet's node IP: this machine has no address besides loopback, and a kubelet refuses those")
}

// reservePorts returns two TCP ports on 127.0.0.1 that the system gives to nobody
// else until the test ends. The kubelet can listen on them: it sets SO_REUSEADDR
// as Go does, and so do the sockets that hold them, which do not listen.
func reservePorts(t testing.TB) (first, second int, err error) {
	if first, err = reservePort(t); err != nil {
		return 0, 0, err
	}
	second, err = reservePort(t)
	return first, second, err
}

func reservePort(t testing.TB) (int, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("reserving a port for the kubelet: %w", err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, fmt.Errorf("reserving a port for the kubelet: %w", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("reserving a port for the kubelet: %w", err)
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, fmt.Errorf("reserving a port for the kubelet: %w", err)
	}
	return address.(*unix.SockaddrInet4).Port, nil
}
