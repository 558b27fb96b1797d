package offline

import "strings"

// nearly reports whether a word is probably meant to be another one: it differs in case
// and at most two letters, in short words one, or lacks the end.
func nearly(written, meant string) bool {
	a, b := strings.ToLower(written), strings.ToLower(meant)
	const (
		short  = 5 // letters
		stump  = 7 // letters of a beginning that tells what is meant
		factor = 2 // of short words only half as many letters may differ
	)
	if len(a) >= stump && strings.HasPrefix(b, a) {
		return true
	}
	allowed := factor
	if min(len(a), len(b)) <= short {
		allowed = 1
	}
	return distance(a, b) <= allowed
}

// distance is the number of bytes to insert, delete or replace that makes b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
