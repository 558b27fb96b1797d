package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a length of time as Go and Kubernetes write it: a sequence of
// numbers with units, "90s", "1h30m", "250ms". It is never negative.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') && duration(self) >= duration('0s')",message="must be a duration: numbers with the units h, m, s, ms, us or ns, for example 90s or 1h30m"
type Duration struct {
	time.Duration `json:"-"`
}

// UnmarshalJSON reads a duration such as "90s".
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration is a string such as \"90s\" or \"1h30m\", not %s", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%w: accepted are numbers with units, such as \"90s\" or \"1h30m\"", err)
	}
	d.Duration = parsed
	return nil
}

// MarshalJSON writes the duration the way people write it.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(d.String())
}

// IsZero reports whether the duration is zero.
func (d Duration) IsZero() bool { return d.Duration == 0 }
