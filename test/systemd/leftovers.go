package systemd

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodemend/nodemend/test/leftovers"
)

// dirPrefix begins the names of directories and control groups. The ID of the process
// that has made them follows.
const dirPrefix = "nodemend-systemd-"

func dirPattern() string { return fmt.Sprintf("%s%d-*", dirPrefix, os.Getpid()) }

// removeLeftovers removes what processes that were killed have left below dir. What
// can't be removed stays for the next time.
func removeLeftovers(dir string, remove func(path string) error) {
	left, _ := filepath.Glob(filepath.Join(dir, dirPrefix+"*")) // the pattern is valid
	for _, path := range left {
		if leftovers.OwnerIsDead(path, dirPrefix) {
			_ = remove(path)
		}
	}
}
