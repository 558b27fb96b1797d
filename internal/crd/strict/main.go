// Program strict makes CustomResourceDefinitions refuse what Go's types cannot be read from.
//
//	go run ./internal/crd/strict FILE...
//
// The API server takes the formats int32 and date-time less seriously than Go does. An
// object with a number that is too large, or a time with a small t, would keep our programs
// from reading all objects of its kind, whoever wrote it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	var errs []error
	for _, file := range os.Args[1:] {
		errs = append(errs, rewrite(file))
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "strict:", err)
		os.Exit(1)
	}
}

func rewrite(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var definition map[string]any
	if err := yaml.Unmarshal(data, &definition); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	restrict(definition)
	if data, err = yaml.Marshal(definition); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, bytes.Join([][]byte{[]byte("---\n"), data}, nil), 0o644) //nolint:gosec // it is part of the source
}

// dateTime are the times that metav1.Time can be read from, among those that the API server
// accepts for the format date-time. Fields of metav1.MicroTime have a pattern of their own.
const dateTime = `^[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// restrict adds to all schemas in a value what their formats lack.
func restrict(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			restrict(item)
		}
	case map[string]any:
		for _, field := range value {
			restrict(field)
		}
		switch value["format"] {
		case "int32":
			setDefault(value, "minimum", math.MinInt32)
			setDefault(value, "maximum", math.MaxInt32)
		case "date-time":
			setDefault(value, "pattern", dateTime)
		}
	}
}

func setDefault(schema map[string]any, key string, value any) {
	if _, given := schema[key]; !given {
		schema[key] = value
	}
}
