package detector

import (
	"fmt"
	"regexp"
)

// maxConditionType is how long the type of a condition may be: a policy can't name a longer one.
const maxConditionType = 316

// conditionType is what a policy can name, see v1alpha1.ConditionMatch.
var conditionType = regexp.MustCompile(`^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// CheckConditionType returns an error if a node can't have a condition of this type that a
// policy can name.
func CheckConditionType(name string) error {
	switch {
	case len(name) > maxConditionType:
		return fmt.Errorf("%.20q… has %d characters, accepted are %d", name, len(name), maxConditionType)
	case !conditionType.MatchString(name):
		return fmt.Errorf("%q is no type of a condition: accepted are letters, digits, -, _ and ., beginning and ending "+
			"with one of the first two, such as KernelDeadlock, and before that a domain and /", name)
	default:
		return nil
	}
}
