package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// newVersionCommand returns `nodemend version`.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "nodemend %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
