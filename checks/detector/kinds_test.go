package detector_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
)

func TestTheFileAndThePageKnowEveryKindOfCheck(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "checks.md"))
	if err != nil {
		t.Fatal(err)
	}
	milder := 0
	for _, kind := range detector.Kinds() {
		milder += len(kind.Milder)
		for _, reason := range kind.Milder {
			if !strings.Contains(string(page), "`"+reason+"`†") {
				t.Errorf("docs/checks.md has no † behind %s of %s", reason, kind.Name)
			}
		}
		c, err := config.Parse("f.yaml", fmt.Appendf(nil, "checks: {%s: {failureThreshold: 7}}", kind.Name))
		if err != nil {
			t.Fatal(err)
		}
		if got := kind.Settings(&c.Checks).FailureThreshold; got != 7 {
			t.Errorf("the file says that the failureThreshold of %s is 7, and it is %d", kind.Name, got)
		}
		if heading := "\n## " + kind.ConditionType + " (check `" + kind.Name + "`)\n"; !strings.Contains(string(page), heading) {
			t.Errorf("docs/checks.md has no section%s", heading)
		}
	}
	if n := strings.Count(string(page), "`†"); n != milder {
		t.Errorf("docs/checks.md has † behind %d reasons, and %d are milder ones", n, milder)
	}
}
