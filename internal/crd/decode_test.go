package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/internal/crd"
)

// odd are values that a schema may accept and a decoder refuse.
func odd(s *structuralschema.Structural) []any {
	var format string
	if s.ValueValidation != nil {
		format = s.ValueValidation.Format
	}
	switch {
	case s.XIntOrString:
		return []any{int64(1) << 31, int64(1) << 40, -int64(1) << 40, "1.5", "x"}
	case format == "date-time":
		const day = "2026-01-02"
		return []any{
			day + "T03:04:05Z", day + "T03:04:05.123456Z", day + "T03:04:05.1Z", day + "T03:04:05.123456789Z", day + "T03:04:05,123456Z",
			day + "T03:04:05.123456+01:00", day + "T03:04:05+25:00", day + "T03:04:05-00:99", day + "t03:04:05z", day + "T03:04:05x1Z",
			"2026-02-30T03:04:05Z", "0000-00-00T00:00:00Z", day + "T23:59:60Z", day + "T24:00:00Z", day + "T03:04Z", day + " 03:04:05Z", day, "",
			day + "T03:04:05.123456Zjunk",
		}
	case s.Type == "integer":
		return []any{int64(1) << 31, -(int64(1) << 31) - 1, int64(1) << 40, float64(1 << 40), float64(1), 1e19, 1.5}
	case s.Type == "string":
		return []any{"", "1d", "1.5h", "9999999h", "-1s", "1", " ", "ns", "1e3s", "∞", strings.Repeat("9", 30) + "s"}
	default:
		return nil
	}
}

// sample is a value that the schema describes.
func sample(s *structuralschema.Structural) any {
	switch {
	case s.XIntOrString, s.Type == "integer":
		return int64(1)
	case s.Type == "boolean":
		return true
	case s.Type == "array":
		return []any{sample(s.Items)}
	case s.Type == "object" && s.AdditionalProperties != nil:
		return map[string]any{"a": sample(s.AdditionalProperties.Structural)}
	case s.Type == "object":
		object := map[string]any{}
		for name := range s.Properties {
			field := s.Properties[name]
			object[name] = sample(&field)
		}
		return object
	}
	if v := s.ValueValidation; v != nil {
		if len(v.Enum) > 0 {
			return v.Enum[0].Object
		}
		if v.Format == "date-time" {
			return "2026-01-02T03:04:05.123456Z"
		}
	}
	return "1s"
}

// each calls visit for every leaf of a value, and with what sets it to another value for
// the time of the call.
func each(path string, s *structuralschema.Structural, value any, set func(any), visit func(path string, s *structuralschema.Structural, set func(any))) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			field, known := s.Properties[key]
			if !known && s.AdditionalProperties != nil {
				field = *s.AdditionalProperties.Structural
			}
			each(path+"."+key, &field, value[key], func(v any) { value[key] = v }, visit)
		}
	case []any:
		for i := range value {
			each(fmt.Sprintf("%s[%d]", path, i), s.Items, value[i], func(v any) { value[i] = v }, visit)
		}
	default:
		visit(path, s, set)
		set(value)
	}
}

// What the API server accepts, whoever writes it, our programs can read: one object that
// they can't would keep them from all of its kind.
func TestWhatIsAcceptedCanBeDecoded(t *testing.T) {
	all, err := crd.Load(deploy.CRDs, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, rules := range all {
		t.Run(rules.Kind(), func(t *testing.T) {
			object := sample(rules.Structural).(map[string]any)
			object["apiVersion"], object["kind"], object["metadata"] = rules.APIVersion(), rules.Kind(), map[string]any{"name": "a"}
			seen := 0
			each("", rules.Structural, object, nil, func(path string, s *structuralschema.Structural, set func(any)) {
				for _, value := range odd(s) {
					set(value)
					if refused(t, rules, object, path) {
						continue
					}
					seen++
					typed, err := scheme.New(v1alpha1.GroupVersion.WithKind(rules.Kind()))
					if err != nil {
						t.Fatal(err)
					}
					data, err := json.Marshal(object)
					if err != nil {
						t.Fatal(err)
					}
					if err := json.Unmarshal(data, typed); err != nil {
						t.Errorf("%s: %v (%T) is accepted: %v", path, value, value, err)
					}
				}
			})
			if seen == 0 {
				t.Error("nothing was accepted")
			}
		})
	}
}

// refused reports whether the schema refuses the value at the path.
func refused(t *testing.T, rules *crd.Rules, object map[string]any, path string) bool {
	t.Helper()
	errs, complete := rules.Validate(t.Context(), object, nil)
	if !complete {
		errs = append(errs, rules.ValidateCEL(t.Context(), object, nil)...)
	}
	for _, err := range errs {
		if strings.HasPrefix("."+err.Field, path) || strings.HasPrefix(path, "."+err.Field) {
			return true
		}
	}
	return false
}
