package detector

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a length of time as Go and Kubernetes write it: "90s", "1h30m".
type Duration struct{ time.Duration }

// UnmarshalYAML reads a duration. Its error is one that the decoder collects, so
// that all errors of a file are found at once.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		return &yaml.TypeError{Errors: []string{
			fmt.Sprintf("line %d: %q is not a duration: accepted are numbers with units, such as 90s or 1h30m", node.Line, node.Value),
		}}
	}
	d.Duration = parsed
	return nil
}

// MarshalYAML writes the duration the way people write it.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }
