// Package docs tests the pages for people: that what they name is there.
package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var (
	fenced     = regexp.MustCompile("(?ms)^[ \t]*```.*?\n[ \t]*```")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	linked     = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	linkedText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// repoPath is what looks like a file or folder of the repository.
	repoPath = regexp.MustCompile(`(?:^|[\s"'(])((?:checks|cmd|config|controller|deploy|docs|ipmi|runner|test|tools)/[\w./*{},-]+)`)
)

func TestEveryLinkLeadsToAFileAndAHeading(t *testing.T) {
	for _, page := range pages(t) {
		text := withoutCode(read(t, page))
		for _, match := range linked.FindAllStringSubmatch(text, -1) {
			if problem := follow(t, page, match[1]); problem != "" {
				t.Errorf("%s: %s: %s", page, match[1], problem)
			}
		}
	}
}

func TestEveryFileThatAPageNamesIsThere(t *testing.T) {
	for _, page := range pages(t) {
		text := read(t, page)
		code := fenced.FindAllString(text, -1)
		for _, span := range codeSpan.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			code = append(code, span[1])
		}
		for _, match := range repoPath.FindAllStringSubmatch(strings.Join(code, "\n"), -1) {
			for _, pattern := range expand(strings.TrimRight(match[1], ".,")) {
				if files, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(files) == 0 {
					t.Errorf("%s names %s, which does not exist", page, pattern)
				}
			}
		}
	}
}

// follow returns what is wrong with the target of a link on a page, "" if nothing is.
func follow(t *testing.T, page, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case to.Scheme == "https" && to.Host != "":
		return ""
	case to.Scheme != "" || to.Host != "":
		return "is neither relative nor https"
	}
	file := page
	if to.Path != "" {
		file = filepath.Join(filepath.Dir(page), to.Path)
	}
	info, err := os.Stat(filepath.Join(root, file))
	switch {
	case err != nil:
		return file + " does not exist"
	case to.Fragment == "":
		return ""
	case info.IsDir() || filepath.Ext(file) != ".md":
		return "has an anchor, but is no page"
	case !slices.Contains(anchors(read(t, file)), to.Fragment):
		return fmt.Sprintf("%s has no heading #%s; it has %v", file, to.Fragment, anchors(read(t, file)))
	}
	return ""
}

// anchors returns those of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	var all []string
	seen := map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		plain := strings.TrimSpace(linkedText.ReplaceAllString(match[1], "$1"))
		anchor := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")
		if n := seen[anchor]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			all = append(all, anchor)
		}
		seen[anchor]++
	}
	return all
}

// withoutCode returns the text without what is shown as code.
func withoutCode(text string) string {
	return codeSpan.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
}

// expand does what a shell does with {a,b}.
func expand(pattern string) []string {
	before, rest, open := strings.Cut(pattern, "{")
	list, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return []string{pattern}
	}
	var all []string
	for item := range strings.SplitSeq(list, ",") {
		all = append(all, expand(before+item+after)...)
	}
	return all
}

// pages returns all pages of the repository, relative to its root.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "dist", "testdata"}, name)):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(name) == ".md":
			relative, err := filepath.Rel(root, path)
			all = append(all, relative)
			return err
		}
		return nil
	})
	if err != nil || !slices.Contains(all, "README.md") {
		t.Fatalf("looking for pages: found %v: %v", all, err)
	}
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// testLink is a link to a file of tests: the name of a test, or what a part of one is called.
var testLink = regexp.MustCompile(`\[([^\]\n]+)\]\(([^)\s]+_test\.go)\)`)

// The table of who drives whom is worth what its tests are.
func TestEveryTestThatTheTableOfDriversNamesIsThere(t *testing.T) {
	const page = "docs/development.md"
	_, table, _ := strings.Cut(read(t, page), "## Who drives whom")
	table, _, _ = strings.Cut(table, "\n## ")
	links := testLink.FindAllStringSubmatch(table, -1)
	if len(links) < 27 {
		t.Errorf("%s names %d tests", page, len(links))
	}
	for _, link := range links {
		name := `"` + link[1] + `"`
		if strings.HasPrefix(link[1], "Test") {
			name = "func " + link[1] + "("
		}
		if file := filepath.Join(filepath.Dir(page), link[2]); !strings.Contains(read(t, file), name) {
			t.Errorf("%s: %s has no %s", page, file, name)
		}
	}
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| done by") {
			for i, cell := range cells[2:] {
				if !strings.Contains(cell, "_test.go") {
					t.Errorf("%s: cell %d of %q names no test", page, i+3, line)
				}
			}
		}
	}
}
