package runner

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/internal/bounded"
)

// machineIDOf returns what the host says of itself (machine-id(5)), as its kubelet reads it: the
// first of these files that there is, whatever it holds. It is "" if nobody can know, also
// where the host's disk does not answer.
func machineIDOf(opts Options) string {
	id, _ := bounded.Within(opts.Clock, vetoTimeout, func() string {
		for _, path := range []string{"etc/machine-id", "var/lib/dbus/machine-id"} {
			if id, err := readInRoot(opts.HostRoot, path); err == nil {
				return strings.TrimSpace(id)
			}
		}
		return ""
	})
	return id
}

// readInRoot reads the beginning of a file below root, beneath which all its links lead.
func readInRoot(root, path string) (string, error) {
	file, err := openInRoot(root, path, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // was only read
	const enough = 1 << 10
	data, err := io.ReadAll(io.LimitReader(file, enough))
	return string(data), err
}

// openInRoot opens what is below root for reading, beneath which all its links lead.
func openInRoot(root, path string, flags uint64) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }() // only a place to begin at
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
