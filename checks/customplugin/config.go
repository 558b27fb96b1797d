package customplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// Config is one configuration file of custom plugins that has been found valid.
// Only Load and Parse make one.
type Config struct {
	// Warnings are for people: what in the file has no effect, or an
	// unexpected one. Each names the file.
	Warnings []string

	name             string
	source           string
	interval         time.Duration
	concurrency      int
	maxOutput        int // bytes
	metricsReporting bool
	conditions       []checks.Observation // what is reported when healthy
	rules            []rule
}

// rule is one plugin and what its verdict is about.
type rule struct {
	temporary bool
	condition string // of a permanent rule
	reason    string
	path      string
	own       bool // this program has the plugin; there is none at path
	args      []string
	timeout   time.Duration
}

func newRule(r *Rule, timeout time.Duration) rule {
	return rule{
		temporary: r.Type == checks.Temporary,
		condition: r.Condition,
		reason:    r.Reason,
		path:      r.Path,
		own:       isOwn(r.Path) && !exists(r.Path),
		args:      r.Args,
		timeout:   timeout,
	}
}

// MetricsReporting says whether the file asks for NPD's problem metrics, which
// it does unless it declines.
func (c Config) MetricsReporting() bool { return c.metricsReporting }

// Reasons are those of the problems that permanent rules find, by the condition
// that they set.
func (c Config) Reasons() map[string][]string {
	reasons := map[string][]string{}
	for _, r := range c.rules {
		if !r.temporary {
			reasons[r.condition] = append(reasons[r.condition], r.reason)
		}
	}
	return reasons
}

// Load reads the file at path. The error names every mistake in it, one a line,
// each with the file's name and the field.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration of custom plugins: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for a file's content; name is its name in errors. It accepts
// what NPD accepts, except for values with which NPD hangs, panics or never
// reports. Like NPD it refuses rules whose path does not exist on this machine, but for
// NPD's own plugins, which this program has.
func Parse(name string, data []byte) (Config, error) {
	var file Schema
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, fmt.Errorf("%s: line %d: %w", name, errorLine(data, err), err)
	}
	found := mistakes{file: name}
	config := found.check(&file)
	if err := errors.Join(found.errs...); err != nil {
		return Config{}, err
	}
	config.Warnings = warnings(name, data, &file)
	return config, nil
}
