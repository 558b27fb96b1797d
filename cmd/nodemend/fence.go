//go:build !agent

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/internal/power"
)

const fenceHelp = `Look at how the power of nodes is switched from outside: by their BMC, their cloud, or
what feeds them. The file remote.yaml says how; docs/fencing.md describes it.`

const fenceCheckHelp = `Ask the switch of each NODE, as remote.yaml names it, what it would say when it is
needed. Nothing is switched, and nothing is written to the API server.

A node is fenceable if its switch answers, lets the user in, is that of the node's
machine (its GUID is the node's systemUUID, in one of the three byte orders in
use, and no other node has that), and reads the power on while the node is Ready.
A power that is "reported" is what another program has read, such as the operator of
a BareMetalHost: it is switched, and frees no pods and volumes.

You need the right to get and list nodes, and to get BareMetalHosts if these are
switches. Run it where the switches can be reached and the files with the passwords are.

Exit status: 0 if all are fenceable, 1 if one is not, 2 if the command line or
remote.yaml is wrong, or the cluster can't be asked.`

const fenceCheckExample = `  # One node.
  nodemend fence check worker-1 --config remote.yaml

  # All of them.
  nodemend fence check --config remote.yaml $(kubectl get nodes -o name | cut -d/ -f2)

  # For other programs.
  nodemend fence check -o json worker-1 --config remote.yaml | jq -r '.[] | select(.fenceable | not) | .why'`

// newFenceCommand returns "nodemend fence" with its subcommand.
func newFenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Look at how nodes are switched off from outside",
		Long:  fenceHelp,
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFenceCheckCommand())
	return cmd
}

// fenceCheck is what the command line asks for.
type fenceCheck struct {
	config, kubeconfig, output string
	timeout                    time.Duration
}

// fenceable is what was found of a node.
type fenceable struct {
	Node   string      `json:"node"`
	Switch string      `json:"switch,omitempty"`
	Power  power.State `json:"power,omitempty"`
	// Reported: the power is what another program has read, so no pods and volumes are freed.
	Reported  bool   `json:"reported,omitempty"`
	Fenceable bool   `json:"fenceable"`
	Why       string `json:"why,omitempty"`
}

func newFenceCheckCommand() *cobra.Command {
	check := fenceCheck{output: "table", timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:     "check NODE...",
		Short:   "Ask the switches of nodes whether they could be fenced; switches nothing",
		Long:    fenceCheckHelp,
		Example: fenceCheckExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no node to check; give at least one NODE")}
			}
			return nil
		},
		RunE: check.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&check.config, "config", "", "`file` that says how the power of nodes is switched: remote.yaml (required)")
	flags.StringVarP(&check.output, "output", "o", check.output, "`form` of what is printed: table or json")
	flags.DurationVar(&check.timeout, "timeout", check.timeout, "how long each switch is given")
	kubeconfigFlag(flags, &check.kubeconfig)
	return cmd
}

func (f *fenceCheck) run(cmd *cobra.Command, names []string) error {
	write, ok := map[string]func(io.Writer, []fenceable) error{"table": writeFenceable, "json": writeFenceableJSON}[f.output]
	switch {
	case !ok:
		return usageError{fmt.Errorf("unknown output %q; accepted are table and json", f.output)}
	case f.config == "":
		return usageError{errors.New("no configuration is given; name remote.yaml by --config=FILE")}
	case f.timeout <= 0:
		return usageError{fmt.Errorf("--timeout=%s is not positive", f.timeout)}
	}
	config, err := remote.Load(f.config)
	if err != nil {
		return unknownError{err}
	}
	cfg, err := restConfig(f.kubeconfig, "fence-check")
	if err != nil {
		return unknownError{err}
	}
	config.Cluster = clustersOf(cfg, "fence-check")
	api, err := nodesOf(cfg)
	if err != nil {
		return unknownError{err}
	}
	check := checker{config: config, nodes: api}
	nodes, err := check.read(cmd.Context(), names)
	if err != nil {
		return unknownError{err}
	}
	found := make([]fenceable, len(nodes))
	const atOnce = 16
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range nodes {
		group.Go(func() error {
			found[i] = check.within(cmd.Context(), f.timeout, nodes[i])
			return nil
		})
	}
	_ = group.Wait() // nil
	if err := write(cmd.OutOrStdout(), found); err != nil {
		return unknownError{fmt.Errorf("writing what was found: %w", err)}
	}
	var bad []string
	for _, node := range found {
		if !node.Fenceable {
			bad = append(bad, node.Node)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %s can't be fenced: %s", len(bad), plural(len(found), "node"), strings.Join(bad, ", "))
	}
	return nil
}

// nodesOf returns what asks the cluster for nodes.
func nodesOf(cfg *rest.Config) (corev1client.NodeInterface, error) {
	api, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("asking the cluster: %w", err)
	}
	return api.Nodes(), nil
}

// checker checks nodes, several at a time.
type checker struct {
	config remote.Config
	nodes  corev1client.NodeInterface
	// machines are the names of the nodes that have each systemUUID, of all in the cluster.
	machines map[power.UUID][]string
}

// read returns the nodes of these names, and remembers the machines of all.
func (c *checker) read(ctx context.Context, names []string) (nodes []*corev1.Node, err error) {
	const atOnce = 500
	c.machines = map[power.UUID][]string{}
	byName := map[string]*corev1.Node{}
	for more := (metav1.ListOptions{Limit: atOnce}); ; {
		list, err := c.nodes.List(ctx, more)
		if err != nil {
			return nil, fmt.Errorf("asking the cluster: %w", err)
		}
		for i := range list.Items {
			node := &list.Items[i]
			if slices.Contains(names, node.Name) {
				byName[node.Name] = node.DeepCopy() // or it keeps the whole list
			}
			if machine, err := power.ParseUUID(node.Status.NodeInfo.SystemUUID); err == nil {
				c.machines[machine] = append(c.machines[machine], node.Name)
			}
		}
		if more.Continue = list.Continue; more.Continue == "" {
			break
		}
	}
	for _, name := range names {
		node, found := byName[name]
		if !found {
			return nil, fmt.Errorf("asking the cluster: it has no node %q", name)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// hangGrace is how much longer than its timeout a check may take that reads files and runs
// programs: where the kernel does not answer, no timeout ends them.
const hangGrace = 10 * time.Second

// within checks a node, and waits for it for no longer than the timeout and hangGrace.
func (c *checker) within(ctx context.Context, timeout time.Duration, node *corev1.Node) fenceable {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := bounded.Within(clock.RealClock{}, timeout+hangGrace, func() fenceable { return c.check(ctx, node) })
	if err != nil {
		return fenceable{Node: node.Name, Why: "what asks its switch hangs, such as on a file of a disk that has died"}
	}
	return found
}

// check asks the node's switch.
func (c *checker) check(ctx context.Context, node *corev1.Node) fenceable {
	f := fenceable{Node: node.Name}
	machine, err := power.ParseUUID(node.Status.NodeInfo.SystemUUID)
	if err != nil {
		f.Why = "its systemUUID: " + err.Error()
		return f
	}
	for _, alike := range machine.Alike() {
		for _, other := range c.machines[alike] {
			if other != node.Name {
				f.Why = fmt.Sprintf("node %s has the systemUUID %s, too, so nobody can tell which of the two is switched", other, alike)
				return f
			}
		}
	}
	s, err := c.config.Switch(remote.NodeOf(node))
	if err != nil {
		f.Why = err.Error()
		return f
	}
	f.Switch = s.String()
	reading, err := s.Read(ctx, machine)
	if err != nil {
		f.Why = err.Error()
		return f
	}
	f.Power, f.Reported = reading.Power, reading.Reported
	switch {
	case reading.Power == power.Changing:
		f.Why = fmt.Sprintf("its power is read %s, which is neither on nor off: nothing would be switched", reading.Power)
		return f
	case reading.Power == power.Off && isReady(node):
		// It was read a while ago.
		if node, err = c.nodes.Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			f.Why = fmt.Sprintf("its power is read %s, and whether it is Ready is not known: %v", reading.Power, err)
			return f
		}
		if isReady(node) {
			f.Why = fmt.Sprintf("the node is Ready, and its power is read %s: the switch does not tell the truth, unless the node was shut down within the last minute", reading.Power)
			return f
		}
	}
	f.Fenceable = true
	return f
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func writeFenceable(w io.Writer, nodes []fenceable) error {
	var text strings.Builder
	fmt.Fprintln(&text, "NODE\tFENCEABLE\tPOWER\tSWITCH\tWHY NOT")
	for _, node := range nodes {
		verdict := "no"
		if node.Fenceable {
			verdict = "yes"
		}
		state := orDash(string(node.Power))
		if node.Reported {
			state += ", reported"
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\n", node.Node, verdict, state, orDash(node.Switch), cell(node.Why))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return cell(text)
}

func writeFenceableJSON(w io.Writer, nodes []fenceable) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(nodes)
}
