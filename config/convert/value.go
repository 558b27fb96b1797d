package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"go.yaml.in/yaml/v3"
)

// source is what a tree of values was read from, and which of its fields were asked for.
type source struct {
	c    *conversion
	file string
	used map[*yaml.Node]bool
	// offset is the number of lines of the file before the text.
	offset int
}

// value is a value of a file, with its place. The zero value of node is one that is not there.
type value struct {
	in   *source
	node *yaml.Node
	path string
	line int // of its key
}

// there reports whether the file has it.
func (v value) there() bool { return v.node != nil }

// has reports whether it has one of the fields.
func (v value) has(names ...string) bool {
	for _, name := range names {
		if v.find(name) != nil {
			return true
		}
	}
	return false
}

// find returns the key of a field.
func (v value) find(name string) (key *yaml.Node) {
	key, _ = v.pair(name)
	return key
}

func (v value) pair(name string) (key, of *yaml.Node) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if key := v.node.Content[i]; key.Value == name {
			return key, v.node.Content[i+1]
		}
	}
	return nil, nil
}

// get returns a field, and takes it for used. A field that is null is not there.
func (v value) get(name string) value {
	path := name
	if v.path != "" {
		path = v.path + "." + name
	}
	key, of := v.pair(name)
	if key == nil {
		return value{in: v.in, path: path, line: v.line}
	}
	v.in.used[key] = true
	field := value{in: v.in, node: of, path: path, line: key.Line + v.in.offset}
	if of.Tag == "!!null" {
		field.node = nil
	}
	return field
}

// peek returns the text of a field without taking it for used; "" if it is not there.
func (v value) peek(name string) string {
	if _, of := v.pair(name); of != nil && of.Kind == yaml.ScalarNode && of.Tag != "!!null" {
		return of.Value
	}
	return ""
}

// items returns the entries of a list.
func (v value) items() (items []value) {
	if !v.there() {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.mistake("expected a list")
		return nil
	}
	for i, item := range v.node.Content {
		items = append(items, value{in: v.in, node: item, path: fmt.Sprintf("%s[%d]", v.path, i), line: item.Line + v.in.offset})
	}
	return items
}

// fields returns the names and values of a mapping, and takes them for used.
func (v value) fields() (names []string, values []value) {
	if !v.there() {
		return nil, nil
	}
	if v.node.Kind != yaml.MappingNode {
		v.mistake("expected fields with values, as name: value")
		return nil, nil
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		names = append(names, v.node.Content[i].Value)
		values = append(values, v.get(v.node.Content[i].Value))
	}
	return names, values
}

// rest notes the fields that nobody has asked for, but those of these names.
func (v value) rest(what string, ignored ...string) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return
	}
	for _, name := range ignored {
		v.get(name)
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if key := v.node.Content[i]; !v.in.used[key] {
			v.in.c.lost(v.get(key.Value), "%s has no such field, or none that is known here", what)
		}
	}
}

// mistake records that a value is not what was expected.
func (v value) mistake(format string, args ...any) {
	c := v.in.c
	c.mistakes = append(c.mistakes, Note{File: v.in.file, Line: v.line, Field: v.path, Message: fmt.Sprintf(format, args...)})
}

// shown is the value, for a message.
func (v value) shown() string {
	switch v.node.Kind {
	case yaml.ScalarNode:
		return strconv.Quote(v.node.Value)
	case yaml.SequenceNode:
		return "a list"
	default:
		return "fields"
	}
}

// scalar returns the text of a value; "" and a mistake if it is a list or has fields.
func (v value) scalar(expected string) string {
	if !v.there() {
		return ""
	}
	if v.node.Kind != yaml.ScalarNode {
		v.mistake("expected %s, found %s", expected, v.shown())
		return ""
	}
	return v.node.Value
}

// required returns the text of a value that must be there.
func (v value) required(expected string) string {
	if !v.there() || v.node.Kind == yaml.ScalarNode && v.node.Value == "" {
		v.mistake("expected %s, found nothing", expected)
		return ""
	}
	return v.scalar(expected)
}

// duration returns a length of time, or another one if it is not there.
func (v value) duration(other time.Duration) time.Duration {
	const expected = "a time with a unit, such as 90s or 5m"
	if !v.there() {
		return other
	}
	d, err := time.ParseDuration(v.scalar(expected))
	if (err != nil || d < 0) && v.node.Kind == yaml.ScalarNode {
		v.mistake("expected %s, found %s", expected, v.shown())
	}
	return d
}

// boolean returns true or false, or another one if it is not there.
func (v value) boolean(other bool) bool {
	if !v.there() {
		return other
	}
	b, err := strconv.ParseBool(v.scalar("true or false"))
	if err != nil && v.node.Kind == yaml.ScalarNode {
		v.mistake("expected true or false, found %s", v.shown())
	}
	return b
}

// labels returns a list of values of a label.
func (v value) labels() (all []string) {
	for _, item := range v.items() {
		all = append(all, item.scalar("the value of a label"))
	}
	return all
}

// status returns the status of a condition.
func (v value) status() corev1.ConditionStatus {
	const expected = `"True", "False" or Unknown`
	text := v.required(expected)
	switch status := corev1.ConditionStatus(text); status {
	case "", corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown:
		return status
	}
	v.mistake("expected %s, found %s", expected, v.shown())
	return ""
}

// ofCondition is what the API accepts as the type of a condition.
var ofCondition = regexp.MustCompile(`^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// conditionType returns the type of a condition.
func (v value) conditionType() string {
	const expected = "the type of a condition, as `kubectl describe node` shows it"
	text := v.required(expected)
	if text != "" && (!ofCondition.MatchString(text) || len(text) > 316) {
		v.mistake("expected %s, found %s", expected, v.shown())
	}
	return text
}

// name returns the name of an object.
func (v value) name() string {
	name := v.get("metadata").get("name")
	text := name.required("a name")
	if text != "" && len(validation.IsDNS1123Subdomain(text)) > 0 {
		name.mistake("expected a name of lower-case letters, digits, - and ., found %s", name.shown())
	}
	return text
}

var amount = regexp.MustCompile(`^((100|\d{1,2})%|\d{1,5})$`)

// limit returns a number or a percentage; "" if it is not there.
func (v value) limit() string {
	const expected = "a number or a percentage, such as 3 or 51%"
	if !v.there() {
		return ""
	}
	text := v.scalar(expected)
	if v.node.Kind == yaml.ScalarNode && !amount.MatchString(text) {
		v.mistake("expected %s, found %s", expected, v.shown())
		return ""
	}
	return text
}

// number returns a number from 0 to most; another one if it is not there.
func (v value) number(other, most int) int {
	expected := fmt.Sprintf("a number from 0 to %d", most)
	if !v.there() {
		return other
	}
	n, err := strconv.Atoi(v.scalar(expected))
	if (err != nil || n < 0 || n > most) && v.node.Kind == yaml.ScalarNode {
		v.mistake("expected %s, found %s", expected, v.shown())
		return other
	}
	return n
}

// selector returns a selector of labels; nil if it selects all.
func (v value) selector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	names, values := v.get("matchLabels").fields()
	for i, name := range names {
		metav1.AddLabelToSelector(s, name, values[i].scalar("the value of a label"))
	}
	for _, e := range v.get("matchExpressions").items() {
		requirement := metav1.LabelSelectorRequirement{
			Key: e.get("key").required("the key of a label"), Operator: metav1.LabelSelectorOperator(e.get("operator").required("In, NotIn, Exists or DoesNotExist")),
			Values: e.get("values").labels(),
		}
		e.rest("a selector")
		s.MatchExpressions = append(s.MatchExpressions, requirement)
	}
	v.rest("a selector")
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		v.mistake("expected a selector of labels: %v", err)
	}
	return s
}

// expanded returns a copy in which everything is where it is used: what aliases stand for, and
// the fields that are merged. Of those a field's own mapping wins, and then the first that is
// merged. The document must have been decoded before, which refuses endless ones.
func expanded(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	copied := *node
	copied.Content = nil
	if node.Kind != yaml.MappingNode {
		for _, item := range node.Content {
			copied.Content = append(copied.Content, expanded(item))
		}
		return &copied
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, of := node.Content[i], expanded(node.Content[i+1])
		switch {
		case key.Tag != "!!merge":
			copied.Content = append(copied.Content, expanded(key), of)
		case of.Kind == yaml.SequenceNode:
			merged = append(merged, of.Content...)
		default:
			merged = append(merged, of)
		}
	}
	for _, from := range merged {
		for i := 0; i+1 < len(from.Content); i += 2 {
			if (value{node: &copied}).find(from.Content[i].Value) == nil {
				copied.Content = append(copied.Content, from.Content[i], from.Content[i+1])
			}
		}
	}
	return &copied
}

// oneLine returns a text without line ends and what a terminal obeys, so that nothing of it
// ends a comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// seconds returns a length of time that is written as a number of seconds.
func (v value) seconds() time.Duration {
	text := v.required("a number of seconds")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		v.mistake("expected a number of seconds, found %s", v.shown())
	}
	return time.Duration(n) * time.Second
}
