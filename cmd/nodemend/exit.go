package main

import "errors"

// usageError says that the command line is wrong, not what it asked for.
type usageError struct{ error }

// unknownError says that what was asked for can't be told.
type unknownError struct{ error }

// noFailureError says that there is no failure to be acknowledged.
type noFailureError struct{ error }

// exitStatus is 0 without an error, 2 for wrong usage and where there is no answer, 3 where
// there is nothing to be acknowledged, and 1 for any other error.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if errors.As(err, new(usageError)) || errors.As(err, new(unknownError)) {
		return 2
	}
	if errors.As(err, new(noFailureError)) {
		return 3
	}
	return 1
}
