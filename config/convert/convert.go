package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/strictyaml"
)

// Accepted names what Convert accepts, for people.
const Accepted = "NodeHealthCheck with its templates, MachineHealthCheck, NodeMaintenance, " +
	"a configuration of magnum-auto-healer, and kured or draino as a manifest or as a line with its flags"

// File is a named text: YAML or JSON documents, or one command line.
type File struct {
	// Name is what notes call the file.
	Name string
	Data []byte
}

// Result is what the files were converted to.
type Result struct {
	// YAML has the objects, with comments where they differ from the original.
	YAML string
	// Policies, Budgets and Maintenances are the numbers of objects.
	Policies, Budgets, Maintenances int
	// Notes say what was not carried over, and what somebody has to decide.
	Notes []Note
}

// Convert converts all files together: a template may be in another file than who names it.
// Policies get the mode, but DryRun if the original only shows what it would do. With
// mistakes there is no result; each names what was expected.
func Convert(mode v1alpha1.PolicyMode, files ...File) (result Result, mistakes []Note) {
	c := &conversion{mode: mode, templates: map[string]value{}, named: map[string]bool{}, clusters: map[string]bool{}}
	for _, file := range files {
		before := len(c.objects) + len(c.mistakes)
		c.read(file)
		if len(c.objects)+len(c.mistakes) == before {
			c.mistakes = append(c.mistakes, Note{File: file.Name, Message: "nothing in it to convert; accepted are " + Accepted})
		}
	}
	for _, o := range c.objects {
		if o.value.peek("kind") == mhc {
			c.clusters[o.value.get("spec").peek("clusterName")] = true
		}
	}
	for _, o := range c.objects {
		c.pending = len(c.notes)
		o.convert(c, o.value)
	}
	c.unnamed()
	if len(c.mistakes) > 0 {
		return Result{}, c.mistakes
	}
	slices.SortStableFunc(c.notes, byPlace)
	result = Result{YAML: c.text(), Notes: c.notes}
	for _, r := range c.results {
		switch r.kind {
		case "RemedyPolicy":
			result.Policies++
		case "RemediationBudget":
			result.Budgets++
		default:
			result.Maintenances++
		}
	}
	return result, nil
}

// conversion is one run of Convert.
type conversion struct {
	mode      v1alpha1.PolicyMode
	objects   []found
	templates map[string]value // by kind, namespace and name
	named     map[string]bool  // the templates that somebody names
	clusters  map[string]bool  // those of the MachineHealthChecks
	notes     []Note
	mistakes  []Note
	results   []*object
	// pending is the first note that is above no result yet.
	pending int
}

// converter converts one object.
type converter = func(*conversion, value)

// found is an object to convert.
type found struct {
	value   value
	convert converter
}

// byKind are the converters of objects, whatever the version of their group.
func byKind() map[string]converter {
	return map[string]converter{
		"NodeHealthCheck":    (*conversion).nodeHealthCheck,
		"MachineHealthCheck": (*conversion).machineHealthCheck,
		"NodeMaintenance":    (*conversion).nodeMaintenance,
		"DaemonSet":          (*conversion).workload,
		"Deployment":         (*conversion).workload,
		"ConfigMap":          (*conversion).configMap,

		"SelfNodeRemediationConfig": (*conversion).remediatorConfig,
		"PoisonPillConfig":          (*conversion).remediatorConfig,
	}
}

// read finds what there is to convert in a file.
func (c *conversion) read(file File) {
	decoder := yaml.NewDecoder(bytes.NewReader(file.Data))
	for first := true; ; first = false {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		root := rootOf(&document)
		if first && (err != nil || root != nil && root.Kind == yaml.ScalarNode) && c.commandLine(file) {
			return // a command line is hardly ever YAML
		}
		if err == nil {
			var whole any // repeated keys, and anchors that contain themselves
			err = document.Decode(&whole)
		}
		if err != nil {
			line, text := strictyaml.LineOf(file.Data, err)
			c.mistakes = append(c.mistakes, Note{File: file.Name, Line: line, Message: text})
			return
		}
		if root != nil {
			root = expanded(root)
			c.object(value{in: &source{c: c, file: file.Name, used: map[*yaml.Node]bool{}}, node: root, line: root.Line})
		}
	}
}

// rootOf returns what a document holds; nil for nothing.
func rootOf(document *yaml.Node) *yaml.Node {
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil
	}
	return document.Content[0]
}

// object remembers an object if it is one to convert, or a template. Others are passed over:
// a manifest has more than what decides about nodes.
func (c *conversion) object(v value) {
	if v.node.Kind != yaml.MappingNode {
		v.mistake("expected an object or a configuration, as name: value")
		return
	}
	kind := v.peek("kind")
	switch {
	case kind == "" && isMagnum(v):
		c.objects = append(c.objects, found{v, (*conversion).magnum})
	case strings.HasSuffix(kind, "List") && v.has("items"):
		for _, item := range v.get("items").items() {
			item.path = ""
			c.object(item)
		}
	case isTemplate(kind) && v.has("spec"):
		c.templates[templateKey(kind, v.get("metadata").peek("namespace"), v.get("metadata").peek("name"))] = v
		c.objects = append(c.objects, found{v, func(*conversion, value) {}})
	default:
		convert := byKind()[kind]
		if convert == nil || !relevant(kind, v) {
			return
		}
		if deleted := v.get("metadata").get("deletionTimestamp"); deleted.there() {
			convert = func(c *conversion, _ value) { c.lost(deleted, "this %s is being deleted", kind) }
		}
		c.objects = append(c.objects, found{v, convert})
	}
}

// relevant reports whether an object of a kind that all sorts of programs use is one of a
// system that is converted.
func relevant(kind string, v value) bool {
	switch kind {
	case "DaemonSet", "Deployment":
		return programOf(v) != nil
	case "ConfigMap":
		return magnumFile(v).node != nil
	case "NodeMaintenance":
		return !strings.HasPrefix(v.peek("apiVersion"), v1alpha1.GroupVersion.Group+"/")
	default:
		return true
	}
}

// lost notes that something is not carried over.
func (c *conversion) lost(v value, format string, args ...any) {
	c.note(Note{Kind: Lost, File: v.in.file, Line: v.line, Field: v.path, Message: fmt.Sprintf(format, args...)})
}

// ask notes that somebody has to say what is meant.
func (c *conversion) ask(v value, format string, args ...any) {
	c.note(Note{Kind: Question, File: v.in.file, Line: v.line, Field: v.path, Message: fmt.Sprintf(format, args...)})
}

func (c *conversion) note(n Note) {
	if !slices.Contains(c.notes, n) {
		c.notes = append(c.notes, n)
	}
}
