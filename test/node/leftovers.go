package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodemend/nodemend/test/leftovers"
)

// dirPrefix begins the names of directories and control groups. The ID of the process
// that has made them follows.
const dirPrefix = "nodemend-node-"

// removeLeftovers removes what processes that were killed have left. What can't be
// removed stays for the next time. Its control groups are below those of the process
// that has made them.
func removeLeftovers(mounts []mount) {
	for _, m := range mounts {
		_ = filepath.WalkDir(m.dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasPrefix(entry.Name(), dirPrefix) {
				return nil //nolint:nilerr // groups of others come and go
			}
			if leftovers.OwnerIsDead(path, dirPrefix) {
				_ = leftovers.RemoveCgroup(path)
			}
			return fs.SkipDir
		})
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*")) // the pattern is valid
	for _, path := range left {
		if leftovers.OwnerIsDead(path, dirPrefix) {
			_ = os.RemoveAll(path)
		}
	}
}
