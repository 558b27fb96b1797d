package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/internal/ack"
)

// askedAtOnce is how many nodes are asked at a time.
const askedAtOnce = 8

// errNoFailure is of a node that has no failure to be acknowledged.
var errNoFailure = errors.New("no such failure")

// checkSelection returns what is wrong with a selection for one node, or for several, about which
// nobody can have read all.
func checkSelection(which *ack.Selection, one bool) error {
	const asReport = "say with --what, --component or --kind which failures of several nodes are meant, as \"kubectl nodemend hardware report\" has them"
	switch {
	case !one && which.Given("until"):
		return errors.New("--until names a record of one server's SEL: name that node alone")
	case !one && which.Given("all", "seen"):
		return errors.New("--all and --seen are for one node: " + asReport)
	case !one && !which.Given("what", "component", "kind"):
		return errors.New(asReport)
	default:
		return which.Check("kubectl nodemend hardware describe NODE")
	}
}

func (t *tool) hardwareAck() *cobra.Command {
	var reason string
	var dryRun bool
	var of nodeSet
	var which ack.Selection
	cmd := &cobra.Command{
		Use:   "ack NODE...",
		Short: "Acknowledge failures, so that they do not count any more",
		Long: `Acknowledge what the check hardware has found on nodes. What comes later counts again.

Say which failures are meant. Of one node, --seen takes the IDs that "hardware describe" shows: what has come
since then is not acknowledged. --component, --kind and --what take the words that it shows, of several nodes,
too. --until takes what was logged up to that record of the SEL, --all everything. A failure has to match
all that is given.

With -l it is said to nodes whose hardware is not healthy. Each failure that is acknowledged is printed. --dry-run
prints them, and acknowledges nothing. It is written on the node, by kubectl exec in the pod of its
detector.`,
		Example: `  kubectl nodemend hardware ack worker-17 --seen 5f0c21aa --reason "known, ticket 4711"
  kubectl nodemend hardware ack worker-17 --component DIMM_A1 --reason "DIMM A1 exchanged, ticket 4711"
  kubectl nodemend hardware ack -l rack=r7 --kind PowerSupply --reason "feed B was off, ticket 4712" --dry-run`,
		Args:              of.args,
		ValidArgsFunction: t.completeNodes,
	}
	of.addTo(cmd)
	which.AddTo(cmd.Flags())
	cmd.Flags().StringVar(&reason, "reason", "", "why it does not count (required)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be acknowledged, and acknowledge nothing")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		if reason = strings.TrimSpace(reason); reason == "" {
			return errors.New("say with --reason why it does not count")
		}
		if err := checkSelection(&which, len(args) == 1); err != nil {
			return err
		}
		nodes, err := of.nodes(ctx, c, args...)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			if nodes = slices.DeleteFunc(nodes, hardwareHealthy); len(nodes) == 0 {
				t.printf("the hardware of none of these nodes has failed\n")
				return nil
			}
		}
		command := append([]string{"hardware", "ack", "--reason=" + reason}, which.Flags()...)
		if by := person(ctx, c); by != "" {
			command = append(command, "--by="+by)
		}
		if dryRun {
			command = append(command, "--dry-run")
		}
		detectors, err := t.detectors(ctx, c, nodes)
		if err != nil {
			return err
		}
		return t.eachNode(ctx, nodes, func(ctx context.Context, name string) (string, error) {
			return t.onNode(ctx, detectors, name, command...)
		})
	})
	return cmd
}

// hardwareHealthy reports whether nothing is to be acknowledged: the check says so, or does
// not run.
func hardwareHealthy(n corev1.Node) bool {
	i := slices.IndexFunc(n.Status.Conditions, isHardwareFailure)
	return i < 0 || n.Status.Conditions[i].Status == corev1.ConditionFalse
}

// eachNode asks nodes, some at once, and prints the answers in their order. Of several nodes
// some may have no such failure.
func (t *tool) eachNode(ctx context.Context, nodes []corev1.Node, ask func(ctx context.Context, name string) (string, error)) error {
	answers, errs := make([]string, len(nodes)), make([]error, len(nodes))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i := range nodes {
		group.Go(func() error {
			answers[i], errs[i] = ask(ctx, nodes[i].Name)
			return nil
		})
	}
	_ = group.Wait() // has none
	var failed []error
	without := 0
	for i := range nodes {
		switch err := errs[i]; {
		case errors.Is(err, errNoFailure) && len(nodes) > 1:
			without++
			t.printf("node %s: %s\n", nodes[i].Name, errNoFailure)
		case err != nil:
			failed = append(failed, fmt.Errorf("node %s: %w", nodes[i].Name, err))
		default:
			for line := range strings.SplitSeq(strings.TrimSpace(answers[i]), "\n") {
				t.printf("node %s: %s\n", nodes[i].Name, line)
			}
		}
	}
	if without == len(nodes) {
		return errors.New("nothing was acknowledged: none of these nodes has such a failure")
	}
	return errors.Join(failed...)
}
