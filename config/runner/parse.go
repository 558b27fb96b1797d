package runner

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/internal/strictyaml"
)

// Fields returns the fields that a file may have, by section.
func Fields() map[string][]string {
	return map[string][]string{"commands": {"allow", "deny"}, "units": {"allow", "deny"}, "reboots": {"deny"}, "steps": {"allow"}}
}

// Parse is Load for a file's content; name is its name in errors and reasons. The
// error names every mistake, one a line, each with its line in the file. An empty
// file is one: it may be about to be written.
func Parse(name string, data []byte) (*Veto, error) {
	var sections map[string]map[string]yaml.Node
	root, mistakes := strictyaml.Decode(name, data, &sections)
	if root == nil && len(mistakes) > 0 { // and what sections may hold was not read to its end
		return nil, errors.Join(mistakes...)
	}
	if len(mistakes) == 0 && (root == nil || root.Content[0].ShortTag() == "!!null") {
		mistakes = append(mistakes, fmt.Errorf("%s: is empty: write {} to deny nothing", name))
	}
	r := reader{name: name, mistakes: mistakes}
	v := &Veto{
		file:     name,
		commands: list{allow: r.paths(sections, "allow"), deny: r.paths(sections, "deny")},
		units:    list{allow: r.units(sections, "allow"), deny: r.units(sections, "deny")},
		reboots:  r.flag(sections, "reboots", "deny"),
		steps:    r.list(sections, "steps", "allow", "hashes of steps, as nodemend policy hash FILE prints them", isHash),
	}
	known := Fields()
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		if known[section] == nil {
			r.mistake(strictyaml.Line(root, section), section, "is not known: accepted are commands, units, reboots and steps")
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(sections[section])) {
			if !slices.Contains(known[section], field) {
				r.mistake(strictyaml.Line(root, section, field), section+"."+field, "is not known: accepted is "+strings.Join(known[section], " or "))
			}
		}
	}
	if len(r.mistakes) > 0 {
		return nil, errors.Join(r.mistakes...)
	}
	return v, nil
}

// reader reads values and collects what is wrong with them.
type reader struct {
	name     string
	mistakes []error
}

func (r *reader) mistake(line int, field, text string) {
	r.mistakes = append(r.mistakes, fmt.Errorf("%s: line %d: %s: %s", r.name, line, field, text))
}

func (r *reader) paths(sections map[string]map[string]yaml.Node, field string) []string {
	return r.list(sections, "commands", field, "absolute paths of programs, such as /usr/sbin/ipmitool, no patterns", isProgram)
}

func (r *reader) units(sections map[string]map[string]yaml.Node, field string) []string {
	return r.list(sections, "units", field, "names or patterns of units with their suffix, such as containerd.service, etcd*.service or getty@*.service", isUnit)
}

// isProgram reports whether a path can be that of a program: a directory or a
// pattern would deny nothing.
func isProgram(name string) bool {
	return path.IsAbs(name) && !strings.HasSuffix(name, "/") && !strings.ContainsAny(name, "*?")
}

// isUnit reports whether a pattern can match the name of a unit that a policy may
// restart.
func isUnit(pattern string) bool {
	if _, err := path.Match(glob(pattern), ""); err != nil || strings.Contains(pattern, "/") {
		return false
	}
	if strings.Contains(pattern, "@.") {
		return false // a template, which is no unit; @*. are all made of it
	}
	return slices.ContainsFunc([]string{".service", ".socket", ".mount", ".timer", ".path", "*"}, func(end string) bool {
		return strings.HasSuffix(pattern, end)
	})
}

// isHash reports whether a text is the hash of a step.
func isHash(text string) bool {
	return len(text) == 2*sha256.Size && strings.Trim(text, "0123456789abcdef") == ""
}

// list reads a list of texts; nil if there is none.
func (r *reader) list(sections map[string]map[string]yaml.Node, section, field, accepted string, ok func(string) bool) []string {
	node, found := value(sections, section, field)
	if !found {
		return nil
	}
	name := section + "." + field
	if node.Kind != yaml.SequenceNode {
		r.mistake(node.Line, name, "is not a list: accepted are "+accepted+", or [] for none")
		return nil
	}
	texts := make([]string, 0, len(node.Content))
	for i, entry := range node.Content {
		entry := follow(entry)
		if !ok(entry.Value) {
			r.mistake(entry.Line, fmt.Sprintf("%s.%d", name, i), fmt.Sprintf("%q is not accepted: accepted are %s", entry.Value, accepted))
		}
		texts = append(texts, entry.Value)
	}
	return texts
}

// flag reads true or false.
func (r *reader) flag(sections map[string]map[string]yaml.Node, section, field string) (is bool) {
	node, found := value(sections, section, field)
	if !found {
		return false
	}
	if node.ShortTag() != "!!bool" || node.Decode(&is) != nil {
		r.mistake(node.Line, section+"."+field, fmt.Sprintf("%q is not accepted: accepted are true and false, without quotes", node.Value))
	}
	return is
}

func value(sections map[string]map[string]yaml.Node, section, field string) (*yaml.Node, bool) {
	node, found := sections[section][field]
	return follow(&node), found
}

// follow returns the node that an alias stands for.
func follow(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
