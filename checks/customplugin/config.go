package customplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	cpmtypes "k8s.io/node-problem-detector/pkg/custompluginmonitor/types"
	"k8s.io/node-problem-detector/pkg/types"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/npd"
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
	var file cpmtypes.CustomPluginConfig
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, fmt.Errorf("%s: line %d: %w", name, errorLine(data, err), err)
	}
	found := mistakes{file: name}
	found.check(&file)
	if err := errors.Join(found.errs...); err != nil {
		return Config{}, err
	}
	if err := validateAsNPD(file); err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}

	global := file.PluginGlobalConfig
	config := Config{
		Warnings:         warnings(name, data, &file),
		name:             name,
		source:           file.Source,
		interval:         *global.InvokeInterval,
		concurrency:      *global.Concurrency,
		maxOutput:        *global.MaxOutputLength,
		metricsReporting: *file.EnableMetricsReporting,
		conditions:       npd.Declared(file.DefaultConditions),
	}
	for _, r := range file.Rules {
		timeout := *global.Timeout
		if r.Timeout != nil {
			timeout = *r.Timeout
		}
		config.rules = append(config.rules, rule{
			temporary: r.Type == types.Temp,
			condition: r.Condition,
			reason:    r.Reason,
			path:      r.Path,
			own:       isOwn(r.Path) && !exists(r.Path),
			args:      r.Args,
			timeout:   timeout,
		})
	}
	return config, nil
}

// validateAsNPD is NPD's own validation, for which plugins of this program are where they are
// looked for.
func validateAsNPD(file cpmtypes.CustomPluginConfig) error {
	rules := make([]*cpmtypes.CustomRule, len(file.Rules))
	for i, r := range file.Rules {
		there := *r
		if isOwn(r.Path) {
			there.Path = self
		}
		rules[i] = &there
	}
	file.Rules = rules
	return file.Validate()
}
