//go:build agent

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// remoteDetector is not part of what runs on nodes.
type remoteDetector struct{}

func (remoteDetector) addTo(*cobra.Command) {}

func (remoteDetector) wanted(*pflag.FlagSet) (bool, error) { return false, nil }

func (remoteDetector) run(*cobra.Command, string, string, string) error { return nil }
