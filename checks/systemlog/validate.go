package systemlog

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// maxBuffer bounds the lines that one pattern can span.
const maxBuffer = 10_000

// mistakes collects what is wrong in one file.
type mistakes struct {
	file  string
	found []error
}

func (m *mistakes) add(field, format string, args ...any) {
	m.found = append(m.found, fmt.Errorf("%s: %s: %w", m.file, field, fmt.Errorf(format, args...)))
}

func validate(file string, s Schema) error {
	m := &mistakes{file: file}
	if s.BufferSize < 1 || s.BufferSize > maxBuffer {
		m.add("bufferSize", "%d lines are not accepted, 1 to %d are", s.BufferSize, maxBuffer)
	}
	m.duration("lookback", s.Lookback)
	if s.Delay != "" {
		m.duration("delay", s.Delay)
	}
	m.plugin(s)
	declared := m.conditions(s.Conditions)
	for i, rule := range s.Rules {
		m.rule(fmt.Sprintf("rules[%d]", i), rule.Type, rule.Reason, rule.Condition, declared)
		m.pattern(fmt.Sprintf("rules[%d].pattern", i), rule.Pattern, `\z`)
	}
	return errors.Join(m.found...)
}

func (m *mistakes) plugin(s Schema) {
	switch s.Plugin {
	case pluginKmsg:
	case pluginFilelog:
		if s.LogPath == "" {
			m.add("logPath", "is empty; the plugin %s needs the path of the file", s.Plugin)
		}
		m.pattern("pluginConfig."+keyTimestamp, s.PluginConfig[keyTimestamp], "")
		m.pattern("pluginConfig."+keyMessage, s.PluginConfig[keyMessage], "")
		m.layout("pluginConfig."+keyTimestampFormat, s.PluginConfig[keyTimestampFormat])
	case pluginJournald:
		if s.PluginConfig[keySource] == "" {
			m.add("pluginConfig."+keySource, "is empty; the plugin %s needs the SYSLOG_IDENTIFIER of the entries to read, such as kernel", s.Plugin)
		}
	default:
		m.add("plugin", "%q is not accepted, %s, %s and %s are", s.Plugin, pluginKmsg, pluginFilelog, pluginJournald)
	}
}

// conditions returns the set of declared types.
func (m *mistakes) conditions(conditions []checks.Declared) map[string]bool {
	declared := map[string]bool{}
	for i, c := range conditions {
		field := fmt.Sprintf("conditions[%d].type", i)
		switch {
		case c.Type == "":
			m.add(field, "is empty; a condition needs a type, such as KernelDeadlock")
		case config.CheckConditionType(c.Type) != nil:
			m.add(field, "%w", config.CheckConditionType(c.Type))
		case declared[c.Type]:
			m.add(field, "%q is declared twice; remove one of them", c.Type)
		}
		declared[c.Type] = true
	}
	return declared
}

func (m *mistakes) rule(field string, kind checks.RuleType, reason, condition string, declared map[string]bool) {
	if reason == "" {
		m.add(field+".reason", "is empty; a rule needs a reason, such as OOMKilling")
	}
	switch kind {
	case checks.Temporary:
	case checks.Permanent:
		if !declared[condition] {
			m.add(field+".condition", "%q is not declared under conditions; a permanent rule needs one that is", condition)
		}
	default:
		m.add(field+".type", "%q is not accepted, %s and %s are", kind, checks.Temporary, checks.Permanent)
	}
}

// pattern checks a regular expression that is used with suffix appended.
func (m *mistakes) pattern(field, pattern, suffix string) {
	if pattern == "" {
		m.add(field, "is empty; a regular expression in Go's (RE2) syntax is needed")
		return
	}
	for _, used := range []string{pattern, pattern + suffix} {
		if _, err := regexp.Compile(used); err != nil {
			m.add(field, "%w; a regular expression in Go's (RE2) syntax is accepted", err)
			return
		}
	}
}

func (m *mistakes) duration(field, value string) {
	if d, err := time.ParseDuration(value); err != nil || d < 0 {
		m.add(field, "%q is not accepted, a duration such as 90s, 5m or 1h30m is", value)
	}
}

func (m *mistakes) layout(field, layout string) {
	if sample := time.Date(1999, 12, 31, 23, 58, 59, 0, time.UTC); layout == "" || sample.Format(layout) == layout {
		m.add(field, "%q is not accepted, a layout of Go's time package such as %q is", layout, time.StampMilli)
	}
}
