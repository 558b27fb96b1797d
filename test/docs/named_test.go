package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a link to a test by its name.
var named = regexp.MustCompile(`\[(Test\w+)\]\(([^)#]+_test\.go)\)`)

func TestEveryTestThatAPageNamesIsThere(t *testing.T) {
	for _, page := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(read(t, page), -1) {
			if file := filepath.Join(filepath.Dir(page), match[2]); !strings.Contains(read(t, file), "\nfunc "+match[1]+"(t *testing.T) {") {
				t.Errorf("%s: %s has no %s", page, file, match[1])
			}
		}
	}
}

// That something is freed is the most dangerous thing that happens here: no row of that table is only
// said.
func TestEveryRowOfWhatIsFreedNamesItsTest(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "docs/fencing.md"), "\n### Who frees what, on which evidence\n")
	text, _, _ = strings.Cut(text, "\n#")
	rows := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		rows++
		if !strings.Contains(cells[len(cells)-1], "_test.go)") || len(cells) != 4 {
			t.Errorf("names no test: %s", line)
		}
	}
	if rows < 6 {
		t.Errorf("the table has %d rows", rows)
	}
}
