package customplugin

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/checks"
)

// What a file leaves out. A rule's timeout is that of the file.
const (
	defaultInterval    = 30 * time.Second
	defaultTimeout     = 5 * time.Second
	defaultMaxOutput   = 80 // bytes
	defaultConcurrency = 3
)

// Schema is a configuration file as it is written: NPD's CustomPluginConfig. A test of
// package npd compares both.
type Schema struct {
	Plugin           string            `json:"plugin,omitempty"`
	PluginConfig     PluginConfig      `json:"pluginConfig,omitempty"`
	Source           string            `json:"source"`
	Conditions       []checks.Declared `json:"conditions"`
	Rules            []*Rule           `json:"rules"`
	MetricsReporting *bool             `json:"metricsReporting,omitempty"`
}

// PluginConfig holds for all rules of a file.
type PluginConfig struct {
	InvokeInterval  *string `json:"invoke_interval,omitempty"`
	Timeout         *string `json:"timeout,omitempty"`
	MaxOutputLength *int    `json:"max_output_length,omitempty"`
	Concurrency     *int    `json:"concurrency,omitempty"`
	// These have no effect.
	EnableMessageChangeBasedConditionUpdate *bool `json:"enable_message_change_based_condition_update,omitempty"`
	SkipInitialStatus                       *bool `json:"skip_initial_status,omitempty"`
}

// Rule is a plugin and what its verdict is about.
type Rule struct {
	Type      checks.RuleType `json:"type"`
	Condition string          `json:"condition"` // of a permanent rule
	Reason    string          `json:"reason"`
	Path      string          `json:"path"`
	Args      []string        `json:"args"`
	Timeout   *string         `json:"timeout"`
}

// SetDefaults fills in what a file leaves out, as NPD does.
func (s *Schema) SetDefaults() {
	fill(&s.PluginConfig.InvokeInterval, defaultInterval.String())
	fill(&s.PluginConfig.Timeout, defaultTimeout.String())
	fill(&s.PluginConfig.MaxOutputLength, defaultMaxOutput)
	fill(&s.PluginConfig.Concurrency, defaultConcurrency)
	fill(&s.PluginConfig.EnableMessageChangeBasedConditionUpdate, false)
	fill(&s.PluginConfig.SkipInitialStatus, false)
	fill(&s.MetricsReporting, true)
}

func fill[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
