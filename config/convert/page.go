package convert

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// commentColumn is where comments beside a line begin.
	commentColumn = 43
	// pageWidth is the width to which comments are wrapped.
	pageWidth = 110
)

// object is one that is written.
type object struct {
	kind, name string
	// about says what it is made from, and what else there is to say about all of it.
	about []string
	// verbatim are lines of comment that are not wrapped.
	verbatim []string
	lines    []line
}

// line is a line of YAML, below spec.
type line struct{ code, note string }

// add adds a line, and what it differs in, "" for nothing.
func (o *object) add(code, note string) { o.lines = append(o.lines, line{code, note}) }

// result adds an object, under a name that no other one of its kind has, and returns it.
func (c *conversion) result(kind, name string, about ...string) *object {
	o := &object{kind: kind, name: name, about: about}
	for n := 2; slices.ContainsFunc(c.results, func(r *object) bool { return r.kind == kind && r.name == o.name }); n++ {
		o.name = fmt.Sprintf("%s-%d", name, n)
	}
	c.results = append(c.results, o)
	return o
}

// policy adds a policy in its mode; idle is why the original does nothing, empty if it does. Its
// notes are those since the last one.
func (c *conversion) policy(name, idle string, about ...string) *object {
	o := c.result("RemedyPolicy", name, about...)
	switch {
	case idle != "":
		o.add("mode: DryRun", "as the original: "+idle)
	case c.mode == v1alpha1.ModeEnforce:
		o.add("mode: Enforce", "")
	default:
		o.add("mode: DryRun", "Enforce once the original is gone")
	}
	return o
}

// told adds the notes that are above no object yet to what is said about one, which is made
// from this file.
func (c *conversion) told(o *object, file string) {
	slices.SortStableFunc(c.notes[c.pending:], byPlace)
	for _, kind := range []NoteKind{Lost, Question} {
		first := true
		for _, n := range c.notes[c.pending:] {
			if n.Kind != kind {
				continue
			}
			if first {
				o.about = append(o.about, map[NoteKind]string{Lost: "Not carried over:", Question: "Which is meant?"}[kind])
				first = false
			}
			n.Kind = ""
			if n.File == file {
				n.File = ""
			}
			o.about = append(o.about, "- "+n.String())
		}
	}
	c.pending = len(c.notes)
}

// text returns all objects as YAML.
func (c *conversion) text() string {
	var text strings.Builder
	for i, o := range c.results {
		if i > 0 {
			text.WriteString("---\n")
		}
		for _, about := range o.about {
			comment(&text, "", about)
		}
		for _, l := range o.verbatim {
			text.WriteString("#   " + oneLine(l) + "\n")
		}
		fmt.Fprintf(&text, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\nspec:", v1alpha1.GroupVersion, o.kind, quoted(o.name))
		if len(o.lines) == 0 {
			text.WriteString(" {}")
		}
		text.WriteByte('\n')
		for _, l := range o.lines {
			l.write(&text)
		}
	}
	return text.String()
}

// write writes a line with its comment beside it, or above it where there is no room.
func (l line) write(text *strings.Builder) {
	code := "  " + l.code
	width := utf8.RuneCountInString(code)
	switch {
	case l.note == "":
		text.WriteString(code + "\n")
	case width < commentColumn:
		for i, part := range wrap(l.note, pageWidth-commentColumn-2) {
			if i > 0 {
				code, width = "", 0
			}
			text.WriteString(code + strings.Repeat(" ", commentColumn-width) + "# " + part + "\n")
		}
	case width+utf8.RuneCountInString(l.note)+3 <= pageWidth:
		text.WriteString(code + " # " + oneLine(l.note) + "\n")
	default:
		indent := code[:len(code)-len(strings.TrimLeft(code, " "))]
		comment(text, indent, l.note)
		text.WriteString(code + "\n")
	}
}

// comment writes a text as lines of comment. What follows the first line of an entry of a
// list is indented.
func comment(text *strings.Builder, indent, about string) {
	hang := ""
	if strings.HasPrefix(about, "- ") {
		hang = "  "
	}
	for i, part := range wrap(about, pageWidth-len(indent)-4) {
		if i > 0 {
			part = hang + part
		}
		text.WriteString(indent + "# " + part + "\n")
	}
}

// wrap returns the lines of a text that is at most so wide, where words allow it.
func wrap(text string, width int) (lines []string) {
	current := ""
	for word := range strings.FieldsSeq(oneLine(text)) {
		if current != "" && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > width {
			lines, current = append(lines, current), ""
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return append(lines, current)
}

var (
	plain    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*( [A-Za-z0-9][A-Za-z0-9._/-]*)*$`)
	reserved = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|null|y|n)$`)
)

// quoted returns a text as a YAML scalar, in quotes unless it is plain beyond doubt.
func quoted(text string) string {
	if plain.MatchString(text) && !reserved.MatchString(text) {
		return text
	}
	data, err := json.Marshal(text) // of a string it does not fail
	if err != nil {
		return `""`
	}
	return string(data)
}

// flow returns a selector in one line.
func flow(s *metav1.LabelSelector) string {
	var parts []string
	if len(s.MatchLabels) > 0 {
		var labels []string
		for key, value := range s.MatchLabels {
			labels = append(labels, quoted(key)+": "+quoted(value))
		}
		slices.Sort(labels)
		parts = append(parts, "matchLabels: {"+strings.Join(labels, ", ")+"}")
	}
	if len(s.MatchExpressions) > 0 {
		var all []string
		for i := range s.MatchExpressions {
			all = append(all, requirement(&s.MatchExpressions[i]))
		}
		parts = append(parts, "matchExpressions: ["+strings.Join(all, ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// requirement returns a requirement of a selector in one line.
func requirement(r *metav1.LabelSelectorRequirement) string {
	text := "{key: " + quoted(r.Key) + ", operator: " + quoted(string(r.Operator))
	if len(r.Values) > 0 {
		values := make([]string, len(r.Values))
		for i := range r.Values {
			values[i] = quoted(r.Values[i])
		}
		text += ", values: [" + strings.Join(values, ", ") + "]"
	}
	return text + "}"
}

// nodes adds the selector of nodes. Where it selects all, note follows the sentence that says so.
func (o *object) nodes(s *metav1.LabelSelector, note string) {
	switch {
	case s == nil:
		o.about = append(o.about, "It selects all nodes, those of the control plane, too"+note+".")
	case len(s.MatchExpressions) == 0 && len(s.MatchLabels) == 1:
		o.add("nodeSelector: "+flow(s), note)
	default:
		o.add("nodeSelector:", note)
		if len(s.MatchLabels) > 0 {
			labels := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
			o.add("  "+strings.TrimSuffix(strings.TrimPrefix(flow(labels), "{"), "}"), "")
		}
		if len(s.MatchExpressions) > 0 {
			o.add("  matchExpressions:", "")
		}
		for i := range s.MatchExpressions {
			o.add("  - "+requirement(&s.MatchExpressions[i]), "")
		}
	}
}
