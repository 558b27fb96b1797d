// Command report reads what "go test -json" writes, shows it as it comes with each line
// below the sentence that is the test's name, and ends with a report: each scenario, its
// outcome, what it has proved (by testing.T.Attr("proved", …)), and in how many seconds.
//
// It fails if a test has failed, or if none was run.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer) error {
	r := newReport(to)
	events := json.NewDecoder(from)
	for {
		var e event
		switch err := events.Decode(&e); {
		case errors.Is(err, io.EOF):
			return r.end()
		case err != nil:
			return fmt.Errorf("go test has written no JSON: %w", err)
		}
		r.take(e)
	}
}
