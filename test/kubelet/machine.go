package kubelet

import (
	"errors"
	"fmt"
	"net"
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
