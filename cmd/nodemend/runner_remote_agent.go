//go:build agent

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodemend/nodemend/runner"
)

// remoteRunner is not part of what runs on nodes.
type remoteRunner struct{}

func (remoteRunner) addTo(*cobra.Command) {}

func (remoteRunner) wanted(*pflag.FlagSet) (bool, error) { return false, nil }

func (remoteRunner) run(*cobra.Command, string, runner.Options) error { return nil }
