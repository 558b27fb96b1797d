package checks

import (
	"fmt"
	"slices"
	"strings"
)

// named is how many findings a message names.
const named = 5

// Finding is something that is not well, or that could not be told.
type Finding struct{ Reason, Text string }

// Judge returns what all findings mean, or healthy if there are none. The reason is that of the
// gravest, by the order of grave; findings with none of these reasons prove no problem.
func Judge(found []Finding, grave []string, healthy Result) Result {
	if len(found) == 0 {
		return healthy
	}
	rank := func(f Finding) int {
		if at := slices.Index(grave, f.Reason); at >= 0 {
			return at
		}
		return len(grave)
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return rank(a) - rank(b) })
	texts := make([]string, len(found))
	for i, f := range found {
		texts[i] = f.Text
	}
	if rank(found[0]) < len(grave) {
		return Problem(found[0].Reason, Listed(texts))
	}
	return CannotTell(found[0].Reason, Listed(texts))
}

// Listed returns the first texts for a message, and how many more there are.
func Listed(texts []string) string {
	if more := len(texts) - named; more > 0 {
		texts = append(slices.Clone(texts[:named]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
