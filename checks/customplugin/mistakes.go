package customplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

const (
	pluginName  = "custom"
	maxInterval = 366 * 24 * time.Hour
	maxTimeout  = 24 * time.Hour
)

// mistakes collects all that is wrong with a file.
type mistakes struct {
	file string
	errs []error
}

func (m *mistakes) add(field, format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf("%s: %s: %s", m.file, field, fmt.Sprintf(format, args...)))
}

// check returns what a file means, and finds all mistakes in it. It fills in the
// defaults, which stand in for durations that are none as well.
func (m *mistakes) check(file *Schema) Config {
	if file.Plugin != pluginName {
		m.add("plugin", "%q is not known: only %q is", file.Plugin, pluginName)
	}
	file.SetDefaults()
	global := file.PluginConfig
	c := Config{
		name:             m.file,
		source:           file.Source,
		interval:         m.duration("pluginConfig.invoke_interval", *global.InvokeInterval, defaultInterval, maxInterval),
		concurrency:      *global.Concurrency,
		maxOutput:        *global.MaxOutputLength,
		metricsReporting: *file.MetricsReporting,
		conditions:       checks.WithoutProblem(file.Conditions),
	}
	timeout := m.duration("pluginConfig.timeout", *global.Timeout, defaultTimeout, maxTimeout)
	for i, r := range file.Rules {
		if r == nil {
			m.add(fmt.Sprintf("rules[%d]", i), "is null: remove it")
			return c // nothing below expects it
		}
		own := timeout
		if r.Timeout != nil {
			own = m.duration(fmt.Sprintf("rules[%d].timeout", i), *r.Timeout, timeout, maxTimeout)
		}
		c.rules = append(c.rules, newRule(r, own))
	}
	if n := c.concurrency; n < 1 {
		m.add("pluginConfig.concurrency", "%d plugins at once would never run: at least 1 is needed", n)
	}
	if n := c.maxOutput; n < 0 {
		m.add("pluginConfig.max_output_length", "%d is negative", n)
	}
	declared := m.conditions(c.conditions)
	for i, r := range c.rules {
		m.rule(fmt.Sprintf("rules[%d]", i), file.Rules[i].Type, r, timeout, declared)
	}
	return c
}

// duration returns what text says, or fallback if that is wrong.
func (m *mistakes) duration(field, text string, fallback, most time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		m.add(field, "%q is not a duration: accepted are numbers with units, such as 90s or 1h30m", text)
	case d <= 0 || d > most:
		m.add(field, "%s is not above zero and at most %s", d, most)
	default:
		return d
	}
	return fallback
}

// conditions returns the set of declared types.
func (m *mistakes) conditions(conditions []checks.Observation) map[string]bool {
	declared := map[string]bool{}
	for i, c := range conditions {
		field := fmt.Sprintf("conditions[%d].type", i)
		switch {
		case c.Type == "":
			m.add(field, "is missing")
		case config.CheckConditionType(c.Type) != nil:
			m.add(field, "%v", config.CheckConditionType(c.Type))
		case declared[c.Type]:
			m.add(field, "%s is there twice: keep one", c.Type)
		}
		declared[c.Type] = true
	}
	return declared
}

func (m *mistakes) rule(field string, kind checks.RuleType, r rule, timeout time.Duration, declared map[string]bool) {
	switch kind {
	case checks.Temporary:
	case checks.Permanent:
		if !declared[r.condition] {
			m.add(field+".condition", "%q has no entry in conditions, which says what to report when there is no problem: add one", r.condition)
		}
	default:
		m.add(field+".type", "%q is not known: accepted are %q and %q", kind, checks.Permanent, checks.Temporary)
	}
	if r.timeout > timeout {
		m.add(field+".timeout", "%s is above pluginConfig.timeout, which is %s: lower the one or raise the other", r.timeout, timeout)
	}
	if r.path == "" {
		m.add(field+".path", "is missing")
	} else if !exists(r.path) && !isOwn(r.path) {
		m.add(field+".path", "%s does not exist: correct it, or install the plugin on this machine", r.path)
	}
}

// errorLine is the line of data at which decoding has failed.
func errorLine(data []byte, err error) int {
	var offset int64
	var syntaxErr *json.SyntaxError
	var typeErr *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntaxErr):
		offset = syntaxErr.Offset
	case errors.As(err, &typeErr):
		offset = typeErr.Offset
	}
	return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}
