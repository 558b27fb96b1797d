package sim

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// The table of the page says what each is for.
func TestTheRequestsForAFaultAreThoseOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| requests |")
	documented := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+ [\w/]+) \| (\d+) \|`).FindAllStringSubmatch(table, -1) {
		if documented[row[1]], err = strconv.Atoi(row[2]); err != nil {
			t.Fatal(err)
		}
	}
	tellAll(t, 1000, story{"requests", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("cure"))
		s.begin()
		s.pass(time.Minute)
		asked := map[string]int{}
		s.counted = func(by *process, r apiserver.Request) {
			if r.Name = ""; by.role() == "controller" {
				asked[r.String()]++
			}
		}
		before := s.told()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.ends(n)
		s.pass(time.Minute)
		if s.death != (death{}) { // who starts again asks again
			return
		}
		asked["create Event"] = s.told() - before
		expect(s, "requests", asked, documented)
	}})
}
