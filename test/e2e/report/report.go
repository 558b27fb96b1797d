// Package report keeps account of what end-to-end scenarios have proved.
package report

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Report is what the scenarios of a test binary have proved. It may be used by several
// goroutines.
type Report struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	scenario, outcome string
	took              time.Duration
	proofs            []string
}

// Add adds a scenario by the name of its test, with its outcome in a word.
func (r *Report) Add(test, outcome string, took time.Duration, proofs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row{sentence(test), outcome, took, proofs})
}

// String is the report as a table; empty without scenarios.
func (r *Report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	for _, row := range r.rows {
		fmt.Fprintf(&text, "\n%-4s %4.0f s  %s\n", row.outcome, row.took.Seconds(), row.scenario)
		for _, proof := range row.proofs {
			fmt.Fprintf(&text, "               - %s\n", proof)
		}
	}
	return text.String()
}

// sentence turns the name of a test into one.
func sentence(name string) string {
	name, variant, _ := strings.Cut(strings.TrimPrefix(name, "Test"), "/")
	var words []string
	begin := 0
	for i := 1; i <= len(name); i++ {
		if i < len(name) && (!upper(name, i) || upper(name, i-1) && (i+1 == len(name) || upper(name, i+1))) {
			continue
		}
		word := name[begin:i]
		if begin > 0 && (len(word) == 1 || !upper(word, 1)) {
			word = strings.ToLower(word)
		}
		words, begin = append(words, word), i
	}
	if variant != "" {
		variant = ": " + variant
	}
	return strings.Join(words, " ") + variant
}

func upper(name string, i int) bool { return name[i] >= 'A' && name[i] <= 'Z' }
