package npd

import (
	"github.com/spf13/pflag"
	npd "k8s.io/node-problem-detector/cmd/logcounter/options"
)

// LogCounterOptions are what the flags of NPD's plugin log-counter say.
type LogCounterOptions struct {
	JournaldSource, LogPath string
	Lookback, Delay         string
	Pattern, RevertPattern  string
	Count                   int
}

// AddLogCounterFlags adds the flags of NPD's plugin log-counter to set. What it returns
// says what they are, once set has been parsed.
func AddLogCounterFlags(set *pflag.FlagSet) func() LogCounterOptions {
	o := npd.NewLogCounterOptions()
	o.AddFlags(set)
	return func() LogCounterOptions { return LogCounterOptions(*o) }
}
