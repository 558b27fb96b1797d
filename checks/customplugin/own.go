package customplugin

import (
	"os"
	"path/filepath"
	"slices"
)

// self is this program. Under the name of one of NPD's plugins it is that.
const self = "/proc/self/exe"

// isOwn reports whether NPD ships a plugin of that name, which this program has, too.
func isOwn(path string) bool {
	return slices.Contains([]string{healthChecker, "log-counter"}, filepath.Base(path))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !os.IsNotExist(err)
}

// program is what is executed for a rule.
func (r rule) program() string {
	if r.own {
		return self
	}
	return r.path
}
