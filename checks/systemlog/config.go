package systemlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/checks"
)

// The plugins: ways to read a log.
const (
	pluginKmsg     = "kmsg"
	pluginFilelog  = "filelog"
	pluginJournald = "journald"
)

// defaultSource is that of a file without one.
const defaultSource = "system-log-monitor"

// Keys of a plugin's pluginConfig.
const (
	keyTimestamp       = "timestamp"
	keyMessage         = "message"
	keyTimestampFormat = "timestampFormat"
	keySource          = "source"
)

// Config is a valid configuration file of a system-log monitor, defaults
// applied.
type Config struct {
	Schema
	// Warnings say what in the file has no effect.
	Warnings []string
}

// MetricsReporting reports whether problems are counted in NPD's metrics.
func (c Config) MetricsReporting() bool {
	return ptr.Deref(c.Schema.MetricsReporting, true)
}

// Reasons are those of the problems that permanent rules find, by the condition
// that they set.
func (c Config) Reasons() map[string][]string {
	reasons := map[string][]string{}
	for _, r := range c.Rules {
		if r.Type == checks.Permanent {
			reasons[r.Condition] = append(reasons[r.Condition], r.Reason)
		}
	}
	return reasons
}

// Load reads and checks the file at path, or the one of the program that BuiltinPrefix and its
// name stand for; see [Parse].
func Load(path string) (Config, error) {
	if name, is := strings.CutPrefix(path, BuiltinPrefix); is {
		data, err := Builtin(name)
		if err != nil {
			return Config{}, err
		}
		return Parse(path, data)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration of a system-log monitor: %w", err)
	}
	return Parse(path, data)
}

// Parse checks the content of the file called name, in NPD's JSON schema. The
// error holds all mistakes, each with the field and with what is accepted there.
//
// Fields that NPD does not know are only warned about, as it ignores them. So are
// commas after the last element of a list, which NPD refuses but which one of its
// own files has. A condition that no permanent rule is for, which NPD reports as
// False for ever, is warned about and left out.
func Parse(name string, data []byte) (Config, error) {
	strict, commas := withoutTrailingCommas(data)
	var config Config
	if err := json.Unmarshal(strict, &config.Schema); err != nil {
		return Config{}, fmt.Errorf("%s%s: %w", name, errorPosition(strict, err), err)
	}
	for _, offset := range commas {
		config.warn("%s: a comma after the last element, which node-problem-detector refuses", name+lineColumn(data, offset))
	}
	for _, field := range unknownFields(strict) {
		config.warn("%s: %s: no such field, it is ignored", name, field)
	}
	config.SetDefaults()
	if config.Plugin != pluginFilelog && len(config.SkipList) > 0 {
		config.warn("%s: skipList: only the plugin %s uses it, it is ignored", name, pluginFilelog)
	}
	if config.Source == "" {
		config.Source = defaultSource
		config.warn("%s: source: is empty, %s is used", name, config.Source)
	}
	if err := validate(name, config.Schema); err != nil {
		return Config{}, err
	}
	config.leaveOutUnjudged(name)
	return config, nil
}

func (c *Config) leaveOutUnjudged(name string) {
	judged := c.Reasons()
	var kept []checks.Declared
	for i, condition := range c.Conditions {
		if judged[condition.Type] != nil {
			kept = append(kept, condition)
			continue
		}
		c.warn("%s: conditions[%d]: no permanent rule is for %s: it is never reported", name, i, condition.Type)
	}
	c.Conditions = kept
}

func (c *Config) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// errorPosition says where in data an error of encoding/json is.
func errorPosition(data []byte, err error) string {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return lineColumn(data, int(syntax.Offset)-1)
	case errors.As(err, &mismatch):
		return lineColumn(data, int(mismatch.Offset)-1)
	default:
		return ""
	}
}
