package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// event is one of "go doc test2json", or of a build.
type event struct {
	Action, Package, ImportPath, Test string
	Output, Key, Value                string
	Elapsed                           float64 // s
}

// report is the account of a run.
type report struct {
	to   io.Writer
	last string // of whom the last line was
	open map[string]bool
	rows map[string]*row // by package and test
	done []*row
	// failed are packages.
	failed []string
}

type row struct {
	scenario, outcome string
	seconds           float64
	proofs            []string
	isGroup           bool // it has tests of its own, which are the scenarios
}

// outcomes are the words for actions that end a test.
var outcomes = map[string]string{"pass": "ok", "fail": "FAIL", "skip": "skip"}

func newReport(to io.Writer) *report {
	return &report{to: to, open: map[string]bool{}, rows: map[string]*row{}}
}

// take takes the next event.
func (r *report) take(e event) {
	switch {
	case e.Action == "build-output":
		r.show(e.ImportPath, e.Output)
	case e.Package == "":
	case e.Test == "":
		r.takePackage(e)
	default:
		r.takeTest(e)
	}
}

func (r *report) takePackage(e event) {
	switch e.Action {
	case "start":
		r.open[e.Package] = true
	case "output":
		r.show(path.Base(e.Package), e.Output)
	case "pass", "skip":
		delete(r.open, e.Package)
	case "fail":
		delete(r.open, e.Package)
		r.failed = append(r.failed, e.Package)
	}
}

func (r *report) takeTest(e event) {
	key := e.Package + " " + e.Test
	at := r.rows[key]
	if at == nil {
		at = &row{scenario: path.Base(e.Package) + ": " + sentence(e.Test)}
		r.rows[key] = at
		if parent := r.rows[e.Package+" "+path.Dir(e.Test)]; parent != nil {
			parent.isGroup = true
		}
	}
	switch e.Action {
	case "output":
		r.show(at.scenario, e.Output)
	case "attr":
		if e.Key == "proved" {
			at.proofs = append(at.proofs, e.Value)
		}
	case "pass", "fail", "skip":
		at.outcome, at.seconds = outcomes[e.Action], e.Elapsed
		if !at.isGroup || e.Action == "fail" || len(at.proofs) > 0 {
			r.done = append(r.done, at)
			r.show(at.scenario, fmt.Sprintf("%s after %.0f s\n", at.outcome, at.seconds))
		}
	}
}

// show shows a line of somebody, unless it is one of go test about itself.
func (r *report) show(who, line string) {
	text := strings.TrimSpace(line)
	for _, own := range []string{"=== ", "--- ", "PASS", "FAIL\t", "ok  \t", "?   \t"} {
		if strings.HasPrefix(text+"\t", own) {
			return
		}
	}
	if text == "" || text == "FAIL" {
		return
	}
	if who != r.last {
		_, _ = fmt.Fprintf(r.to, "%s\n", who)
		r.last = who
	}
	_, _ = fmt.Fprintf(r.to, "    %s\n", strings.TrimRight(line, "\n"))
}

// end writes the report, and says what has failed.
func (r *report) end() error {
	_, _ = fmt.Fprintln(r.to)
	for _, row := range r.done {
		if row.outcome == outcomes["pass"] && len(row.proofs) == 0 && row.seconds < 1 {
			continue // of the suites' own parts
		}
		_, _ = fmt.Fprintf(r.to, "%-4s %4.0f s  %s\n", row.outcome, row.seconds, row.scenario)
		for _, proof := range row.proofs {
			_, _ = fmt.Fprintf(r.to, "               - %s\n", proof)
		}
	}
	var errs []error
	for pkg := range r.open {
		errs = append(errs, fmt.Errorf("%s did not end", pkg))
	}
	for _, pkg := range r.failed {
		errs = append(errs, errors.New(pkg))
	}
	if len(r.done) == 0 {
		errs = append(errs, errors.New("no test was run"))
	}
	return errors.Join(errs...)
}
