package deploy_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	detectorconfig "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/config/remote"
	runnerconfig "github.com/nodemend/nodemend/config/runner"
)

var update = flag.Bool("update", false, "write what the schema of the chart's values takes from Go")

const schemaFile = "chart/values.schema.json"

// Helm refuses a field that the detector or the runner would refuse when it starts.
func TestTheSchemaOfTheValuesHasTheFieldsOfTheConfigurations(t *testing.T) {
	sections := map[string]any{}
	for section, fields := range runnerconfig.Fields() {
		properties := map[string]any{}
		for _, field := range fields {
			properties[field] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
			if section == "reboots" {
				properties[field] = map[string]any{"type": "boolean"}
			}
		}
		sections[section] = objectOf(properties)
	}
	want := map[string]any{
		"detectorConfig": schemaOf(reflect.TypeFor[detectorconfig.Config]()),
		"runnerConfig":   objectOf(sections),
	}
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for name, schema := range want {
			text, err := json.Marshal(schema)
			if err != nil {
				t.Fatal(err)
			}
			line := regexp.MustCompile(`(?m)^    "` + name + `": .*,$`)
			data = line.ReplaceAllLiteral(data, []byte(`    "`+name+`": `+string(text)+`,`))
		}
		if err := os.WriteFile(schemaFile, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var schema struct{ Definitions map[string]any }
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if diff := cmp.Diff(want[name], schema.Definitions[name]); diff != "" {
			t.Errorf("%s in %s (-want +got), -update rewrites it:\n%s", name, schemaFile, diff)
		}
	}
}

// So it is with what the remote runner may have replaced. Its patterns are written by hand.
func TestTheSchemaOfTheValuesHasTheFieldsOfReplace(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Type       string
		Additional *bool `json:"additionalProperties"`
		Properties map[string]json.RawMessage
	}
	at := func(text json.RawMessage, path ...string) (found object) {
		t.Helper()
		for _, name := range append(path, "") {
			if text == nil { // it is not known
				return object{}
			}
			if err := json.Unmarshal(text, &found); err != nil {
				t.Fatal(err)
			}
			if name != "" {
				text, found = found.Properties[name], object{}
			}
		}
		return found
	}
	for of, path := range map[reflect.Type][]string{
		reflect.TypeFor[remote.Config]():     nil,
		reflect.TypeFor[remote.Replace]():    {"replace"},
		reflect.TypeFor[remote.ClusterAPI](): {"replace", "clusterAPI"},
		reflect.TypeFor[remote.Magnum]():     {"replace", "magnum"},
	} {
		got := at(data, append([]string{"remoteRunner", "config"}, path...)...)
		names := slices.Sorted(maps.Keys(fieldsOf(of)))
		if known := slices.Sorted(maps.Keys(got.Properties)); !slices.Equal(known, names) || got.Additional == nil || *got.Additional {
			t.Errorf("%s: it knows %q, accepted are %q", of, known, names)
		}
	}
}

// fieldsOf are the names of what can be read into a type.
func fieldsOf(of reflect.Type) map[string]bool {
	names := map[string]bool{}
	for i := range of.NumField() {
		switch name, options, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ","); {
		case options == "inline":
			maps.Copy(names, fieldsOf(of.Field(i).Type))
		case name != "" && name != "-":
			names[name] = true
		}
	}
	return names
}

// schemaOf returns the schema of what can be read into a type.
func schemaOf(of reflect.Type) map[string]any {
	switch {
	case of == reflect.TypeFor[detectorconfig.Duration](), of == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`}
	case of.Kind() == reflect.Pointer:
		return schemaOf(of.Elem())
	case of.Kind() == reflect.Struct:
		return objectOf(propertiesOf(of))
	case of.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(of.Elem())}
	case of.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(of.Elem())}
	default:
		return map[string]any{"type": map[reflect.Kind]string{reflect.Bool: "boolean", reflect.String: "string", reflect.Int: "integer"}[of.Kind()]}
	}
}

func propertiesOf(of reflect.Type) map[string]any {
	properties := map[string]any{}
	for i := range of.NumField() {
		name, options, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		if options == "inline" {
			for name, schema := range propertiesOf(of.Field(i).Type) {
				properties[name] = schema
			}
			continue
		}
		properties[name] = schemaOf(of.Field(i).Type)
	}
	return properties
}

func objectOf(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// An alert that the values name is one that there is, and a threshold is for a rule with
// one number to replace.
func TestTheSchemaOfTheValuesHasTheAlerts(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions struct {
			Alerts struct {
				Properties map[string]map[string]string
			}
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("chart/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(rules, &file); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			of := "alert"
			if len(regexp.MustCompile(`(?m)>=? \d+$`).FindAllString(rule.Expr, -1)) == 1 && !strings.Contains(rule.Expr, "unless") {
				of = "alertWithThreshold"
			}
			want[rule.Alert] = map[string]string{"$ref": "#/definitions/" + of}
		}
	}
	if diff := cmp.Diff(want, schema.Definitions.Alerts.Properties); diff != "" || len(want) < 10 {
		t.Errorf("alerts in %s (-want +got):\n%s", schemaFile, diff)
	}
}
