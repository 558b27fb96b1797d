package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is the product broken on purpose.
type mutant struct {
	// name is that of its file, without .patch; why is its first line.
	name, why string
	// changes are what it does to files. There is more than one where a second defence
	// would mask the mistake.
	changes []change
}

// change is what a mutant does to one file.
type change struct {
	// file by its path in the module.
	file  string
	hunks []hunk
}

// hunk is one change of a unified diff.
type hunk struct {
	// at is the line where it is expected, counted from 0.
	at          int
	old, mutate []string
}

// load reads all mutants of a directory, by their names.
func load(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(file), ".patch")
		all = append(all, m)
	}
	return all, nil
}

// mutate returns the changed file of the module in this directory.
func (c change) mutate(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, c.file))
	if err != nil {
		return "", err
	}
	changed, err := c.apply(string(source))
	if err == nil && changed == string(source) {
		err = fmt.Errorf("%s is not changed", c.file)
	}
	return changed, err
}

// parse reads a line that says why, and a unified diff.
func parse(text string) (mutant, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	m := mutant{why: lines[0]}
	if m.why == "" || strings.HasPrefix(m.why, "---") {
		return m, errors.New("the first line does not say what is broken")
	}
	for _, line := range lines[1:] {
		switch {
		case strings.HasPrefix(line, "+++ b/"):
			m.changes = append(m.changes, change{file: strings.TrimPrefix(line, "+++ b/")})
		case strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "index ") || strings.HasPrefix(line, "--- a/"):
		case len(m.changes) == 0:
			return m, fmt.Errorf("%q is not of a file", line)
		case strings.HasPrefix(line, "@@ -"):
			at, err := strconv.Atoi(line[4 : strings.IndexAny(line[4:]+" ", ", ")+4])
			if err != nil {
				return m, fmt.Errorf("reading %q: %w", line, err)
			}
			last := &m.changes[len(m.changes)-1]
			last.hunks = append(last.hunks, hunk{at: at - 1})
		default:
			last := &m.changes[len(m.changes)-1]
			if len(last.hunks) == 0 {
				return m, fmt.Errorf("%q is of no hunk", line)
			}
			if err := last.hunks[len(last.hunks)-1].add(line); err != nil {
				return m, err
			}
		}
	}
	if len(m.changes) == 0 || slices.ContainsFunc(m.changes, func(c change) bool { return c.hunks == nil }) {
		return m, errors.New("it changes nothing")
	}
	return m, nil
}

// add adds a line of the diff.
func (h *hunk) add(line string) error {
	kind, text := " ", ""
	if line != "" {
		kind, text = line[:1], line[1:]
	}
	switch kind {
	case " ":
		h.old, h.mutate = append(h.old, text), append(h.mutate, text)
	case "-":
		h.old = append(h.old, text)
	case "+":
		h.mutate = append(h.mutate, text)
	default:
		return fmt.Errorf("%q is no line of a diff", line)
	}
	return nil
}

// apply returns the file as changed. Lines may have moved; what a hunk shows must be
// there, in one place only.
func (c change) apply(source string) (string, error) {
	lines := strings.Split(source, "\n")
	for _, h := range c.hunks {
		at := -1
		for i := range len(lines) - len(h.old) + 1 {
			if !slices.Equal(lines[i:i+len(h.old)], h.old) {
				continue
			}
			if at >= 0 && at != h.at {
				return "", fmt.Errorf("what is to be changed near line %d is there more than once", h.at+1)
			}
			if at < 0 {
				at = i
			}
		}
		if at < 0 {
			return "", fmt.Errorf("what is to be changed near line %d is not there any more:\n%s", h.at+1, strings.Join(h.old, "\n"))
		}
		lines = slices.Concat(lines[:at], h.mutate, lines[at+len(h.old):])
	}
	return strings.Join(lines, "\n"), nil
}
