package npd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cpmtypes "k8s.io/node-problem-detector/pkg/custompluginmonitor/types"
	"k8s.io/node-problem-detector/pkg/systemlogmonitor"
	"k8s.io/node-problem-detector/pkg/types"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/customplugin"
	"github.com/nodemend/nodemend/checks/systemlog"
)

// schema is what a kind of configuration file is decoded into.
type schema struct {
	name         string
	plugins      []string // that a file names
	ours, theirs reflect.Type
	parse        func(data []byte) error // of ours
	// setDefaults is called for what ours and theirs have become.
	setDefaults func(ours, theirs any) error
	// validate is called for theirs, with its defaults.
	validate func(theirs any) error
}

// schemas are the kinds of configuration files that this module decodes itself.
func schemas() []schema {
	return []schema{
		{
			name:    "custom plugins",
			plugins: []string{"custom"},
			ours:    reflect.TypeFor[customplugin.Schema](),
			theirs:  reflect.TypeFor[cpmtypes.CustomPluginConfig](),
			parse:   func(data []byte) error { _, err := customplugin.Parse("a.json", data); return err },
			setDefaults: func(ours, theirs any) error {
				ours.(*customplugin.Schema).SetDefaults()
				return theirs.(*cpmtypes.CustomPluginConfig).ApplyConfiguration()
			},
			validate: func(theirs any) error { return theirs.(*cpmtypes.CustomPluginConfig).Validate() },
		},
		{
			name:    "system logs",
			plugins: []string{"kmsg", "filelog", "journald"},
			ours:    reflect.TypeFor[systemlog.Schema](),
			theirs:  reflect.TypeFor[systemlogmonitor.MonitorConfig](),
			parse:   func(data []byte) error { _, err := systemlog.Parse("a.json", data); return err },
			setDefaults: func(ours, theirs any) error {
				ours.(*systemlog.Schema).SetDefaults()
				theirs.(*systemlogmonitor.MonitorConfig).ApplyDefaultConfiguration()
				return nil
			},
			validate: func(theirs any) error { return theirs.(*systemlogmonitor.MonitorConfig).ValidateRules() },
		},
	}
}

func TestTheWordsAreThoseOfNPD(t *testing.T) {
	ours := []string{string(checks.True), string(checks.False), string(checks.Unknown), string(checks.Temporary), string(checks.Permanent)}
	theirs := []string{string(types.True), string(types.False), string(types.Unknown), string(types.Temp), string(types.Perm)}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("(-theirs +ours):\n%s", diff)
	}
}

// bothOf decodes a file by both types.
func (s schema) bothOf(t *testing.T, data []byte) (ours, theirs any) {
	t.Helper()
	ours, theirs = reflect.New(s.ours).Interface(), reflect.New(s.theirs).Interface()
	for _, into := range []any{ours, theirs} {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%T: %v", into, err)
		}
	}
	return ours, theirs
}

// expectAlike compares what is written in JSON.
func expectAlike(t *testing.T, ours, theirs any) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(written(t, theirs), "\n"), strings.Split(written(t, ours), "\n")); diff != "" {
		t.Errorf("(-theirs +ours):\n%s", diff)
	}
}

func written(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var fields any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.MarshalIndent(fields, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}

func TestTheFieldsOfAFileAreThoseOfNPD(t *testing.T) {
	for _, s := range schemas() {
		t.Run(s.name, func(t *testing.T) {
			ours, theirs := map[string]string{}, map[string]string{}
			listFields(s.ours, "", ours)
			listFields(s.theirs, "", theirs)
			if diff := cmp.Diff(theirs, ours); diff != "" || len(theirs) < 20 {
				t.Errorf("%d fields (-theirs +ours):\n%s", len(theirs), diff)
			}
		})
	}
}

// listFields finds the fields of a struct, and of what it holds, by their path in JSON.
func listFields(t reflect.Type, path string, found map[string]string) {
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		if !tagged || tag == "-" {
			if !f.Anonymous && !tagged {
				found[path+f.Name] = "has no name in JSON"
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		kind, within := "", f.Type
		for within.Kind() == reflect.Pointer || within.Kind() == reflect.Slice {
			kind += within.Kind().String() + " of "
			within = within.Elem()
		}
		switch {
		case within == reflect.TypeFor[time.Time](), within.Kind() == reflect.Map:
			kind += within.String()
		default:
			kind += within.Kind().String()
		}
		found[path+name] = strings.TrimSpace(kind + " " + options)
		if within.Kind() == reflect.Struct && within != reflect.TypeFor[time.Time]() {
			listFields(within, path+name+".", found)
		}
	}
}

func TestEveryFieldOfAFileIsDecodedAsByNPD(t *testing.T) {
	for _, s := range schemas() {
		t.Run(s.name, func(t *testing.T) {
			full, n := reflect.New(s.theirs).Elem(), 0
			fill(t, full, &n)
			data := written(t, full.Interface())
			ours, theirs := s.bothOf(t, []byte(data))
			expectAlike(t, ours, theirs)
			if got := written(t, ours); got != data || strings.Contains(got, "null") {
				t.Errorf("some of it is lost: %s\nof %s", got, data)
			}
		})
	}
}

// fill sets all that is in v to values that differ.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key", *n)), reflect.ValueOf(fmt.Sprint("value", *n)))
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("this test can't fill a %s", v.Kind())
	}
}

func TestWhatAFileLeavesOutIsWhatNPDFillsIn(t *testing.T) {
	for _, s := range schemas() {
		for _, data := range []string{
			`{}`,
			`{"pluginConfig": {}, "conditions": [{}], "rules": [{}]}`,
			`{"pluginConfig": {"timeout": "7s"}, "bufferSize": 0, "lookback": "", "metricsReporting": false}`,
		} {
			t.Run(s.name+" "+data, func(t *testing.T) {
				ours, theirs := s.bothOf(t, []byte(data))
				if err := s.setDefaults(ours, theirs); err != nil {
					t.Fatal(err)
				}
				expectAlike(t, ours, theirs)
			})
		}
	}
}

func TestTheFilesThatNPDShipsMeanWhatTheyMeanToNPD(t *testing.T) {
	compared := map[string]int{}
	for _, file := range shipped(t) {
		for _, s := range schemas() {
			if !slices.Contains(s.plugins, file.plugin) {
				continue
			}
			compared[s.name]++
			t.Run(file.name, func(t *testing.T) {
				ours, theirs := s.bothOf(t, file.data)
				expectAlike(t, ours, theirs)
				if err := s.setDefaults(ours, theirs); err != nil {
					t.Fatal(err)
				}
				expectAlike(t, ours, theirs)
			})
		}
	}
	for _, s := range schemas() {
		if compared[s.name] < 8 {
			t.Errorf("only %d files of %s were compared", compared[s.name], s.name)
		}
	}
}

type shippedFile struct {
	name, plugin string
	data         []byte
}

// shipped are the configuration files in NPD's module that name a plugin.
func shipped(t testing.TB) (files []shippedFile) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "config", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var named struct{ Plugin string }
		if err := json.Unmarshal(data, &named); err == nil && named.Plugin != "" { // one of them is no JSON
			files = append(files, shippedFile{filepath.Base(path), named.Plugin, data})
		}
	}
	return files
}

// Each file has one mistake.
func TestWhatNPDRefusesIsRefused(t *testing.T) {
	files := map[string]map[string]string{
		"custom plugins": {
			"no plugin":                `{"rules": [{"type": "temporary", "path": "/bin/sh"}]}`,
			"another plugin":           `{"plugin": "kmsg", "rules": [{"type": "temporary", "path": "/bin/sh"}]}`,
			"no duration":              `{"plugin": "custom", "pluginConfig": {"timeout": "5"}}`,
			"no interval":              `{"plugin": "custom", "pluginConfig": {"invoke_interval": ""}}`,
			"a rule without duration":  `{"plugin": "custom", "rules": [{"type": "temporary", "path": "/bin/sh", "timeout": ""}]}`,
			"a rule that is too long":  `{"plugin": "custom", "rules": [{"type": "temporary", "path": "/bin/sh", "timeout": "6s"}]}`,
			"a plugin that is missing": `{"plugin": "custom", "rules": [{"type": "temporary", "path": "/no/such/plugin"}]}`,
			"no condition":             `{"plugin": "custom", "rules": [{"type": "permanent", "condition": "A", "path": "/bin/sh"}]}`,
			"a number for a text":      `{"plugin": "custom", "source": 1}`,
			"a wrong time":             `{"plugin": "custom", "conditions": [{"type": "A", "transition": "now"}]}`,
		},
		"system logs": {
			"a wrong pattern":     `{"plugin": "kmsg", "source": "s", "rules": [{"type": "temporary", "reason": "A", "pattern": "("}]}`,
			"a text for a number": `{"plugin": "kmsg", "source": "s", "bufferSize": "10"}`,
			"a wrong time":        `{"plugin": "kmsg", "source": "s", "conditions": [{"type": "A", "transition": "now"}]}`,
			"a number in a map":   `{"plugin": "journald", "source": "s", "pluginConfig": {"source": 1}}`,
		},
	}
	for _, s := range schemas() {
		for name, data := range files[s.name] {
			t.Run(s.name+" "+name, func(t *testing.T) {
				if s.npdRefuses([]byte(data)) == nil {
					t.Fatal("NPD accepts it")
				}
				if s.parse([]byte(data)) == nil {
					t.Error("it is accepted")
				}
			})
		}
	}
}

// npdRefuses is what NPD does with a file when it starts.
func (s schema) npdRefuses(data []byte) error {
	ours, theirs := reflect.New(s.ours).Interface(), reflect.New(s.theirs).Interface()
	if err := json.Unmarshal(data, theirs); err != nil {
		return err
	}
	if err := s.setDefaults(ours, theirs); err != nil {
		return err
	}
	return s.validate(theirs)
}

// What NPD refuses and this module accepts on purpose is left out: plugins that this
// program has, and commas after the last element.
func FuzzWhatIsAcceptedNPDAcceptsToo(f *testing.F) {
	for _, file := range shipped(f) {
		f.Add(file.data)
	}
	f.Add([]byte(`{"plugin": "custom", "pluginConfig": {"timeout": "4s"}, "rules": [{"type": "temporary", "path": "/bin/sh", "timeout": "3s"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var file struct{ Rules []struct{ Path string } }
		if json.Unmarshal(data, &file) != nil {
			return
		}
		for _, r := range file.Rules {
			if base := filepath.Base(r.Path); base == "health-checker" || base == "log-counter" {
				return
			}
		}
		for _, s := range schemas() {
			if s.parse(data) != nil {
				continue
			}
			if err := s.npdRefuses(data); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	})
}
