package migrate

import (
	"strings"
	"testing"

	"github.com/nodemend/nodemend/checks/customplugin"
)

// The custom plugin that comes with a converted kured is one that the detector accepts.
func TestThePluginInTheCommentsIsAccepted(t *testing.T) {
	for _, name := range []string{"kured-daemonset.yaml", "kured-flags.txt"} {
		var plugin strings.Builder
		_, below, _ := strings.Cut(read(t, golden(name)), "# The custom plugin")
		for line := range strings.Lines(below) {
			if text, found := strings.CutPrefix(line, "#   "); found {
				plugin.WriteString(text)
			}
		}
		config, err := customplugin.Parse(name, []byte(plugin.String()))
		if err != nil {
			t.Errorf("%v:\n%s", err, plugin.String())
		}
		for _, warning := range config.Warnings {
			t.Errorf("%s: %s", name, warning)
		}
		for condition := range config.Reasons() {
			if !strings.Contains(read(t, golden(name)), "- {type: "+condition+`, status: "True"`) {
				t.Errorf("%s: the policy does not match %s", name, condition)
			}
		}
	}
}
