package verdict

import (
	"bytes"
	_ "embed"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed rules.yaml
var rulesYAML []byte

// DefaultRulesYAML returns the rules that are tried after those of people, as people may
// write them, with comments.
func DefaultRulesYAML() []byte { return bytes.Clone(rulesYAML) }

// DefaultRules returns the same, the gravest first: failures are listed in this order.
func DefaultRules() Rules { return slices.Clone(defaultRules()) }

var defaultRules = sync.OnceValue(func() Rules { return decoded[Rules](rulesYAML) })

// decoded returns what a file of this package has.
func decoded[T any](file []byte) (value T) {
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	decoder.KnownFields(true)
	if err := decoder.Decode(&value); err != nil {
		panic(err) // it is a part of the program, and tests read it
	}
	return value
}
