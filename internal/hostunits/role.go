package hostunits

import (
	"fmt"
	"slices"
)

// Role is what the unit runs.
type Role string

// The roles that run on a node.
const (
	Runner   Role = "runner"
	Detector Role = "detector"
)

// ParseRole returns the role of that name. The error lists those that there are.
func ParseRole(name string) (Role, error) {
	role := Role(name)
	if !slices.Contains([]Role{Runner, Detector}, role) {
		return "", fmt.Errorf("unknown role %q; accepted are %s and %s", name, Runner, Detector)
	}
	return role, nil
}

// Unit is the name of the role's systemd unit.
func (r Role) Unit() string { return r.program() + ".service" }

func (r Role) program() string { return "nodemend-" + string(r) }
