package unit

import (
	"fmt"
	"slices"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// endsSystem returns why a restart of a unit would end the system: it is a unit for that,
// under any of its names, it has an action for its end that does so, or it pulls in such
// a unit. "" if it would not. Of what it pulls in, what that pulls in is not looked at.
func endsSystem(names []string, properties map[string]any) string {
	if i := slices.IndexFunc(names, v1alpha1.EndsSystem); i >= 0 {
		return "it is " + names[i]
	}
	for _, name := range []string{"SuccessAction", "FailureAction", "StartLimitAction", "JobTimeoutAction"} {
		if action := get[string](properties, name); action != "" && action != "none" {
			return fmt.Sprintf("it has %s=%s", name, action)
		}
	}
	for _, name := range []string{"Requires", "BindsTo", "Wants", "Upholds", "OnSuccess", "OnFailure", "Triggers"} {
		units := get[[]string](properties, name)
		if i := slices.IndexFunc(units, v1alpha1.EndsSystem); i >= 0 {
			return fmt.Sprintf("it has %s=%s", name, units[i])
		}
	}
	return ""
}
