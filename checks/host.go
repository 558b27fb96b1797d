package checks

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HostProcess is the folder of process 1 in /proc: what it sees is what the host sees.
const HostProcess = "/proc/1"

// firstPIDs is the PID namespace that a kernel begins with (PROC_PID_INIT_INO of Linux).
const firstPIDs = "pid:[4026531836]"

// SeesHost returns an error if the process whose folder is given, HostProcess as a rule, is
// known to be none of the host: this process itself, the first one of its container, or the
// sandbox of its pod.
func SeesHost(process string) error {
	if process != HostProcess {
		return nil // somebody says whose view counts
	}
	return seesHost("/proc", os.Getpid(), os.Getenv("KUBERNETES_SERVICE_HOST") != "")
}

func seesHost(proc string, pid int, inPod bool) error {
	unseen := errors.New("the host's processes are not seen: give the pod hostPID")
	of := func(process, namespace string) string {
		name, _ := os.Readlink(filepath.Join(proc, process, "ns", namespace))
		return name
	}
	name, _ := os.ReadFile(filepath.Join(proc, "1", "comm"))
	first := strings.TrimSpace(string(name))
	switch {
	case pid == 1:
		return unseen
	case of("self", "pid") == firstPIDs:
		return nil
	case first == "pause": // of a pod whose containers share their processes
		return unseen
	case inPod && of("self", "mnt") != "" && of("self", "mnt") == of("1", "mnt") && !slices.Contains([]string{"systemd", "init"}, first):
		return unseen // its entry point is a shell, say
	default:
		return nil // a node that is a container itself, as kind's are
	}
}
