//go:build !agent

package main

import (
	"context"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// gcPercent is how much garbage the controller lets lie, in percent of what it
// keeps. Most of what it keeps are the nodes, and nearly all of its garbage are
// heartbeats: collecting it twice as often as by default costs little.
const gcPercent = 50

// lean runs the controller in little memory, its peak included, which is the first
// list of the nodes. GOGC overrides how garbage is collected.
func lean(ctx context.Context, run func(context.Context) error) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// What only the start of the program has needed goes before that peak.
	if err := releaseProgram(); err != nil {
		klog.FromContext(ctx).V(1).Info("Pages of the program are kept in memory", "err", err.Error())
	}
	return trimmed(ctx, run)
}
