//go:build agent

package main

import "github.com/spf13/cobra"

const centralHelp = `This is nodemend-agent, which holds what runs on nodes. The controller and what
checks policies are in the program nodemend.`

func centralCommands() []*cobra.Command { return nil }
