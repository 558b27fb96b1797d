package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// versions is the answer of the command.
type versions struct {
	// Client is the version of this program.
	Client string        `json:"client"`
	Roles  []agentStatus `json:"roles"`
}

func (t *tool) versionCommand() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Versions of the plugin, the controller and the agents",
		Long: `Show the version of this program, and of the cluster's controller, detector and runner: the
tag of their image, how many pods are ready, and how many are still of another version.`,
		Example: `  kubectl nodemend version
  kubectl nodemend version -o json`,
		Args: cobra.NoArgs,
	}
	form.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versions{Client: version}
		if c, err := t.connect(); err != nil { // this program has a version without a cluster, too
			v.Roles = []agentStatus{{Role: "roles", Problem: err.Error()}}
		} else {
			v.Roles, _ = agents(cmd.Context(), c, nil)
		}
		return t.print(form, v, func() string { return t.folded(versionText(v)) })
	}
	return cmd
}

func versionText(v versions) string {
	rows := [][]string{{"plugin", v.Client, "-", "-"}}
	problems := ""
	for _, a := range v.Roles {
		if a.Problem != "" {
			problems += fmt.Sprintf("%s: %s\n", a.Role, oneLine(a.Problem))
			continue
		}
		rows = append(rows, []string{a.Role, dash(a.Version), fmt.Sprintf("%d/%d", a.Ready, a.Wanted), fmt.Sprint(a.Old)})
	}
	return table([]string{"ROLE", "VERSION", "READY", "OLD"}, rows) + problems
}
