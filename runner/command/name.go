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
	// hashDigits tell changed names apart.
	hashDigits = 32
)

// Characters that a name of a NodeAction has, and that a unit's name has besides the "_"
// that tells changed names from plain ones.
var (
	plainName = regexp.MustCompile(`^[a-zA-Z0-9.-]*$`)
	unusable  = regexp.MustCompile(`[^a-zA-Z0-9.-]`)
)

// unitName returns the name of an action's unit, which is also that of its pipe and
// control group. Different actions have different names.
func unitName(action string) string {
	if plainName.MatchString(action) && len(unitPrefix)+len(action)+len(unitSuffix) <= maxUnitName {
		return unitPrefix + action + unitSuffix
	}
	sum := sha256.Sum256([]byte(action))
	room := maxUnitName - len(unitPrefix) - len("_") - hashDigits - len(unitSuffix)
	usable := unusable.ReplaceAllLiteralString(action, "-")
	return unitPrefix + usable[:min(len(usable), room)] + "_" + hex.EncodeToString(sum[:])[:hashDigits] + unitSuffix
}

func (r *Remedy) pipePath(unit string) string { return filepath.Join(r.opts.Dir, unit) }
