package command

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// unitPrefix keeps the units of actions apart from those of the runner and the
	// detector themselves, whatever an action is called.
	unitPrefix = "nodemend-action-"
	// formerPrefix is that of the version before.
	formerPrefix = "nodemend-"
	unitSuffix   = ".service"
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
func unitName(action string) string { return withPrefix(unitPrefix, action) }

func withPrefix(prefix, action string) string {
	if plainName.MatchString(action) && len(prefix)+len(action)+len(unitSuffix) <= maxUnitName {
		return prefix + action + unitSuffix
	}
	sum := sha256.Sum256([]byte(action))
	room := maxUnitName - len(prefix) - len("_") - hashDigits - len(unitSuffix)
	usable := unusable.ReplaceAllLiteralString(action, "-")
	return prefix + usable[:min(len(usable), room)] + "_" + hex.EncodeToString(sum[:])[:hashDigits] + unitSuffix
}

// unitOf returns the name of an order's unit, also of one that the version before has
// begun.
func unitOf(order remedy.Order) string {
	return cmp.Or(order.Prepared.Unit, withPrefix(formerPrefix, order.Action))
}

// description is what systemd says of an order's unit, and of no other.
func description(order remedy.Order) string {
	if order.Prepared.Unit == "" {
		return "nodemend: action " + order.Action // by the version before
	}
	return "nodemend: action " + order.Action + ", UID " + string(order.UID)
}

// isOurselves reports whether a unit is the runner or the detector: the version before gave
// their names to the units of actions with unhappy ones.
func isOurselves(unit string) bool {
	return slices.Contains([]string{"nodemend-runner.service", "nodemend-detector.service"}, unit)
}

func (r *Remedy) pipePath(unit string) string { return filepath.Join(r.opts.Dir, unit) }
