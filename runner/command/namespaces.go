package command

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// enterHost moves the calling thread into the host's namespaces, so that the
// children that it makes are there. The goroutine must be locked to the thread and
// must end without unlocking it: the thread then ends as well. Files that are open
// stay what they are. A runner without the rights of root stays where it is.
//
// The PID namespace can't be entered from one below it. A runner that is to act on
// the host's processes needs to be in it (hostPID).
func enterHost(hostProc string) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("taking a thread out of the runner's file system context: %w", err)
	}
	unix.Umask(0o022) // what systemd gives to its services
	var others []*os.File
	defer func() {
		for _, namespace := range others {
			_ = namespace.Close()
		}
	}()
	// The mount namespace is the last, since it takes our /proc away.
	for _, name := range []string{"cgroup", "ipc", "uts", "net", "mnt"} {
		namespace, err := os.Open(filepath.Join(hostProc, "1", "ns", name))
		if os.IsPermission(err) && os.Geteuid() != 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("opening the host's namespaces: %w", err)
		}
		others = append(others, namespace)
	}
	for i, name := range []string{"cgroup", "ipc", "uts", "net", "mnt"} {
		var ours, theirs unix.Stat_t
		if err := unix.Stat("/proc/thread-self/ns/"+name, &ours); err != nil {
			return fmt.Errorf("looking at the runner's own namespaces: %w", err)
		}
		if err := unix.Fstat(int(others[i].Fd()), &theirs); err != nil {
			return fmt.Errorf("looking at the host's namespaces: %w", err)
		}
		if ours.Ino == theirs.Ino && ours.Dev == theirs.Dev {
			continue
		}
		if err := unix.Setns(int(others[i].Fd()), 0); err != nil {
			return fmt.Errorf("entering the host's %s namespace: %w", name, err)
		}
	}
	return nil
}
