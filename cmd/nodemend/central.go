//go:build !agent

package main

import (
	"fmt"
	"slices"
	"strings"
	_ "time/tzdata" // budgets name time zones, and images have no database of them

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const centralHelp = `What to do is written as RemedyPolicy and RemediationBudget objects; check
them before you apply them with "nodemend policy check".`

// centralCommands are for the middle of a cluster and for people. What runs on every
// node is also built without them, since what a program holds takes memory even if it
// is never used.
func centralCommands() []*cobra.Command {
	return []*cobra.Command{newControllerCommand(), newPolicyCommand(), newFenceCommand()}
}

// onlyFlagsOf returns an error if flags were given that mean nothing: those that are not among ofRemote with
// --remote, and those among ofRemoteOnly without it.
func onlyFlagsOf(flags *pflag.FlagSet, remote bool, role string, ofRemote, ofRemoteOnly []string) error {
	var others []string
	flags.Visit(func(f *pflag.Flag) {
		if remote && !slices.Contains(ofRemote, f.Name) || !remote && slices.Contains(ofRemoteOnly, f.Name) {
			others = append(others, "--"+f.Name)
		}
	})
	switch {
	case len(others) == 0:
		return nil
	case remote:
		return usageError{fmt.Errorf("%s: for the %s of a node, not for --remote", strings.Join(others, ", "), role)}
	default:
		return usageError{fmt.Errorf("%s: with --remote only", strings.Join(others, ", "))}
	}
}
