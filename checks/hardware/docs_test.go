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

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "checks.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheDocumentationHasTheDefaultRules(t *testing.T) {
	const heading = "## Default rules of HardwareFailure\n"
	_, section, ok := strings.Cut(page(t), heading)
	if !ok {
		t.Fatalf("docs/checks.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	if want := verdict.DefaultRules().Table(); !strings.Contains(section, "\n\n"+strings.TrimSuffix(want, "\n")) {
		t.Errorf("docs/checks.md does not have the table of the default rules:\n%s", want)
	}
}

func TestTheDocumentationHasEveryReasonAndMetric(t *testing.T) {
	text := page(t)
	for _, reason := range []string{
		hardware.ReasonNoBMC, hardware.ReasonInterrupted, verdict.ReasonMultiple, verdict.ReasonUnreachable, verdict.ReasonPoweredOff,
		verdict.ReasonSensorsUnreadable, verdict.ReasonSensorsUnavailable, verdict.ReasonLogUnreadable, verdict.ReasonChassisUnreadable,
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
		if !strings.Contains(text, "| `"+name) {
			t.Errorf("docs/checks.md does not explain the metric %s", name)
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
