//go:build !agent

package main

import (
	"context"
	"os"
	"runtime/debug"
)

// gcPercent is how much garbage the controller lets lie, in percent of what it
// keeps. Most of what it keeps are the nodes, and nearly all of its garbage are
// heartbeats: collecting it twice as often as by default costs little.
const gcPercent = 50

// frugal runs the controller in little memory, its peak included, which is the first
// list of the nodes. GOGC overrides how garbage is collected.
func frugal(ctx context.Context, run func(context.Context) error) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return lean(ctx, run)
}
