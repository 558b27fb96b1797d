package command

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
)

const (
	unitPrefix = "nodemend-"
	unitSuffix = ".service"
	// maxUnitName is systemd's limit, and that of file names.
	maxUnitName = 255
	// hashDigits tell shortened names apart.
	hashDigits = 16
)

// unitName returns the name of an action's unit, which is also that of its pipe and
// control group. Different actions have different names.
func unitName(action string) string {
	plain := regexp.MustCompile(`[^a-zA-Z0-9:_.-]`).ReplaceAllLiteralString(action, "_")
	if plain == action && len(unitPrefix)+len(plain)+len(unitSuffix) <= maxUnitName {
		return unitPrefix + plain + unitSuffix
	}
	sum := sha256.Sum256([]byte(action))
	room := maxUnitName - len(unitPrefix) - len("-") - hashDigits - len(unitSuffix)
	return unitPrefix + plain[:min(len(plain), room)] + "-" + hex.EncodeToString(sum[:])[:hashDigits] + unitSuffix
}

func (r *Remedy) pipePath(unit string) string { return filepath.Join(r.opts.Dir, unit) }
