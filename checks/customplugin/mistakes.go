package customplugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	cpmtypes "k8s.io/node-problem-detector/pkg/custompluginmonitor/types"
	"k8s.io/node-problem-detector/pkg/types"

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

// check finds all mistakes in file. It fills in the defaults, which stand in for
// durations that are none as well.
func (m *mistakes) check(file *cpmtypes.CustomPluginConfig) {
	if file.Plugin != pluginName {
		m.add("plugin", "%q is not known: only %q is", file.Plugin, pluginName)
	}
	global := &file.PluginGlobalConfig
	m.duration("pluginConfig.invoke_interval", &global.InvokeIntervalString, maxInterval)
	m.duration("pluginConfig.timeout", &global.TimeoutString, maxTimeout)
	for i, r := range file.Rules {
		if r == nil {
			m.add(fmt.Sprintf("rules[%d]", i), "is null: remove it")
			return // nothing below expects it
		}
		m.duration(fmt.Sprintf("rules[%d].timeout", i), &r.TimeoutString, maxTimeout)
	}
	if err := file.ApplyConfiguration(); err != nil {
		m.errs = append(m.errs, fmt.Errorf("%s: %w", m.file, err))
		return
	}
	if n := *global.Concurrency; n < 1 {
		m.add("pluginConfig.concurrency", "%d plugins at once would never run: at least 1 is needed", n)
	}
	if n := *global.MaxOutputLength; n < 0 {
		m.add("pluginConfig.max_output_length", "%d is negative", n)
	}
	defaults := m.conditions(file.DefaultConditions)
	for i, r := range file.Rules {
		m.rule(fmt.Sprintf("rules[%d]", i), r, *global.Timeout, defaults)
	}
}

// duration judges a duration that may be absent, and removes a wrong one.
func (m *mistakes) duration(field string, text **string, most time.Duration) {
	if *text == nil {
		return
	}
	d, err := time.ParseDuration(**text)
	switch {
	case err != nil:
		m.add(field, "%q is not a duration: accepted are numbers with units, such as 90s or 1h30m", **text)
	case d <= 0 || d > most:
		m.add(field, "%s is not above zero and at most %s", d, most)
	default:
		return
	}
	*text = nil
}

// conditions returns the types that have a default condition.
func (m *mistakes) conditions(conditions []types.Condition) map[string]bool {
	defaults := map[string]bool{}
	for i, c := range conditions {
		field := fmt.Sprintf("conditions[%d].type", i)
		switch {
		case c.Type == "":
			m.add(field, "is missing")
		case config.CheckConditionType(c.Type) != nil:
			m.add(field, "%v", config.CheckConditionType(c.Type))
		case defaults[c.Type]:
			m.add(field, "%s is there twice: keep one", c.Type)
		}
		defaults[c.Type] = true
	}
	return defaults
}

func (m *mistakes) rule(field string, r *cpmtypes.CustomRule, timeout time.Duration, defaults map[string]bool) {
	switch r.Type {
	case types.Temp:
	case types.Perm:
		if !defaults[r.Condition] {
			m.add(field+".condition", "%q has no entry in conditions, which says what to report when there is no problem: add one", r.Condition)
		}
	default:
		m.add(field+".type", "%q is not known: accepted are %q and %q", r.Type, types.Perm, types.Temp)
	}
	if r.Timeout != nil && *r.Timeout > timeout {
		m.add(field+".timeout", "%s is above pluginConfig.timeout, which is %s: lower the one or raise the other", r.Timeout, timeout)
	}
	if r.Path == "" {
		m.add(field+".path", "is missing")
	} else if !exists(r.Path) && !isOwn(r.Path) {
		m.add(field+".path", "%s does not exist: correct it, or install the plugin on this machine", r.Path)
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
