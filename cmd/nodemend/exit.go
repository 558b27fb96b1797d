package main

import "errors"

// usageError says that the command line is wrong, not what it asked for.
type usageError struct{ error }

// exitStatus is 2 for wrong usage and 1 for any other error.
func exitStatus(err error) int {
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
