package checks

import (
	"errors"
	"os"
)

// HostProcess is the folder of process 1 in /proc: what it sees is what the host sees.
const HostProcess = "/proc/1"

// SeesHost returns an error if process 1 is this process: it is alone in a container then.
func SeesHost() error {
	if os.Getpid() == 1 {
		return errors.New("the host's processes are not seen: give the pod hostPID")
	}
	return nil
}
