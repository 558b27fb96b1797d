package detector

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits of what one matcher may be.
const maxMatcher = 1024

var (
	labelName   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	matcherForm = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*$`)
	reasonWord  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,127}$`)
	placeholder = regexp.MustCompile(`\{([^{}]*)\}`)
	filled      = regexp.MustCompile(`^(label|annotation):([a-zA-Z_][a-zA-Z0-9_]*)$`)
)

// Matcher is one label that an alert has to have, as Alertmanager's matchers.
type Matcher struct {
	Name, Value string
	regex       *regexp.Regexp
	negated     bool
}

// ParseMatcher reads name="value", !=, =~ or !~. A regular expression has to match all of the
// value. A label that is not there has the value "".
func ParseMatcher(text string) (Matcher, error) {
	parts := matcherForm.FindStringSubmatch(text)
	if parts == nil || len(text) > maxMatcher {
		return Matcher{}, fmt.Errorf(`%.60q is no matcher: accepted are name="value", name!="value", name=~"regex" and name!~"regex"`, text)
	}
	m := Matcher{Name: parts[1], Value: parts[3], negated: strings.HasPrefix(parts[2], "!")}
	if strings.ContainsAny(m.Value, `"`) {
		var err error
		if m.Value, err = strconv.Unquote(m.Value); err != nil {
			return Matcher{}, fmt.Errorf(`%.60q has a value with a quote that does not end, or more after it: accepted is name="value"`, text)
		}
	}
	if strings.HasSuffix(parts[2], "~") {
		var err error
		if m.regex, err = regexp.Compile("^(?:" + m.Value + ")$"); err != nil {
			return Matcher{}, fmt.Errorf("%.60q has no regular expression: %w", text, err)
		}
	}
	return m, nil
}

// Matches reports whether a value of the label, "" if it is not there, is meant.
func (m Matcher) Matches(value string) bool {
	same := value == m.Value
	if m.regex != nil {
		same = m.regex.MatchString(value)
	}
	return same != m.negated
}

// Matchers are those of the texts, which are valid.
func Matchers(texts []string) (all []Matcher) {
	for _, text := range texts {
		if m, err := ParseMatcher(text); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// matchers adds what is wrong with a list. One that selects every alert is hardly meant so.
func (p *problems) matchers(texts []string, path ...string) {
	narrow := false
	for i, text := range texts {
		m, err := ParseMatcher(text)
		if err != nil {
			p.add(err.Error(), append(append([]string{}, path...), strconv.Itoa(i))...)
			return
		}
		narrow = narrow || !m.Matches("")
	}
	if !narrow {
		p.add(`selects every alert: accepted is a list with at least one matcher that a missing label does not match, such as alertname="NodeDiskFull"`, path...)
	}
}

// CheckMessage returns an error if a template of a message has other placeholders than
// {label:NAME} and {annotation:NAME}.
func CheckMessage(template string) error {
	for _, found := range placeholder.FindAllStringSubmatch(template, -1) {
		if !filled.MatchString(found[1]) {
			return fmt.Errorf("%q is no placeholder: accepted are {label:NAME} and {annotation:NAME}", found[0])
		}
	}
	return nil
}

// Message fills a template's placeholders. What an alert does not have is empty.
func Message(template string, labels, annotations map[string]string) string {
	return placeholder.ReplaceAllStringFunc(template, func(found string) string {
		parts := filled.FindStringSubmatch(strings.Trim(found, "{}"))
		if parts == nil {
			return found
		}
		if parts[1] == "label" {
			return labels[parts[2]]
		}
		return annotations[parts[2]]
	})
}
