package customplugin

import (
	"path/filepath"
	"strings"
)

const (
	healthChecker = "health-checker"
	enableRepair  = "--enable-repair"
)

// repairs reports whether r runs NPD's health-checker, which restarts what it
// finds unhealthy unless it is told not to.
func repairs(r rule) bool { return filepath.Base(r.path) == healthChecker }

// withoutRepair returns args of health-checker with which it repairs nothing.
func withoutRepair(args []string) []string {
	kept := []string{enableRepair + "=false"}
	for _, arg := range args {
		if arg != enableRepair && !strings.HasPrefix(arg, enableRepair+"=") {
			kept = append(kept, arg)
		}
	}
	return kept
}
