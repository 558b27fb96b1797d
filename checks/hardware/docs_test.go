package hardware_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheDocumentationHasTheDefaultRules(t *testing.T) {
	if want := verdict.DefaultRules().Table(); !strings.HasSuffix(page(t, "hardware-rules.md"), "\n\n"+want) {
		t.Errorf("docs/hardware-rules.md does not end with the table of the default rules:\n%s", want)
	}
}

func TestTheDocumentationHasEveryReasonAndMetric(t *testing.T) {
	text, metrics := page(t, "checks.md"), page(t, "metrics.md")
	for _, reason := range []string{
		hardware.ReasonNoBMC, hardware.ReasonInterrupted, verdict.ReasonMultiple, verdict.ReasonUnreachable, verdict.ReasonPoweredOff,
		verdict.ReasonSensorsUnreadable, verdict.ReasonSensorsUnavailable, verdict.ReasonLogUnreadable, verdict.ReasonLogDoubtful, verdict.ReasonChassisUnreadable,
		verdict.ReasonComponentMissing, verdict.ReasonUnconfirmed,
	} {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("docs/checks.md does not explain the reason %s", reason)
		}
	}
	for _, latch := range []verdict.Latch{verdict.LatchPresent, verdict.LatchMomentary, verdict.LatchManual} {
		if !strings.Contains(text, "| `"+string(latch)+"` | ") {
			t.Errorf("docs/checks.md does not explain the latch %s", latch)
		}
	}
	registry := &descriptions{}
	if _, err := hardware.NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	for _, name := range registry.names {
		if !strings.Contains(metrics, "| `"+name) {
			t.Errorf("docs/metrics.md does not explain the metric %s", name)
		}
	}
	if len(registry.names) != 4 {
		t.Errorf("the metrics are %q", registry.names)
	}
}

// descriptions collects the names of metrics.
type descriptions struct {
	prometheus.Registerer

	names []string
}

var fqName = regexp.MustCompile(`fqName: "(\w+)"`)

func (d *descriptions) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 1)
	c.Describe(described)
	d.names = append(d.names, fqName.FindStringSubmatch((<-described).String())[1])
	return nil
}
