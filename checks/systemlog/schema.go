package systemlog

import (
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/checks"
)

// What a file leaves out.
const (
	defaultBufferSize = 10 // lines
	defaultLookback   = "0"
)

// Schema is a configuration file as it is written: NPD's MonitorConfig. A test of
// package npd compares both.
type Schema struct {
	// Plugin says how the log is read, and PluginConfig is for that.
	Plugin       string            `json:"plugin,omitempty"`
	PluginConfig map[string]string `json:"pluginConfig,omitempty"`
	// SkipList has texts; lines that contain one are passed over.
	SkipList []string `json:"skipList,omitempty"`
	LogPath  string   `json:"logPath,omitempty"`
	// Lookback and Delay are durations. Lines count that are not older than Lookback,
	// nor than the boot and Delay.
	Lookback string `json:"lookback,omitempty"`
	Delay    string `json:"delay,omitempty"`
	// BufferSize is how many lines a pattern can span.
	BufferSize       int               `json:"bufferSize"`
	Source           string            `json:"source"`
	Conditions       []checks.Declared `json:"conditions"`
	Rules            []Rule            `json:"rules"`
	MetricsReporting *bool             `json:"metricsReporting,omitempty"`
}

// Rule is a pattern and what a match means.
type Rule struct {
	Type      checks.RuleType `json:"type"`
	Condition string          `json:"condition"` // of a permanent rule
	Reason    string          `json:"reason"`
	// Pattern is a regular expression that must match up to the end of a line.
	Pattern string `json:"pattern"`
	// PatternGeneratedMessageSuffix follows the lines that match, in the message.
	PatternGeneratedMessageSuffix string `json:"patternGeneratedMessageSuffix,omitempty"`
}

// SetDefaults fills in what a file leaves out, as NPD does.
func (s *Schema) SetDefaults() {
	if s.BufferSize == 0 {
		s.BufferSize = defaultBufferSize
	}
	if s.Lookback == "" {
		s.Lookback = defaultLookback
	}
	if s.MetricsReporting == nil {
		s.MetricsReporting = ptr.To(true)
	}
}
