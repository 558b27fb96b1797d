//go:build !agent

package main

import (
	_ "time/tzdata" // budgets name time zones, and images have no database of them

	"github.com/spf13/cobra"
)

const centralHelp = `What to do is written as RemedyPolicy and RemediationBudget objects; check
them before you apply them with "nodemend policy check".`

// centralCommands are for the middle of a cluster and for people. What runs on every
// node is also built without them, since what a program holds takes memory even if it
// is never used.
func centralCommands() []*cobra.Command {
	return []*cobra.Command{newControllerCommand(), newPolicyCommand(), newFenceCommand()}
}
