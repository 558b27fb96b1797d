package checks

import (
	"path"
	"slices"
)

// Matches is whether a name matches one of the patterns, as of path.Match, of which all are valid.
func Matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		match, err := path.Match(pattern, name)
		return err == nil && match
	})
}
