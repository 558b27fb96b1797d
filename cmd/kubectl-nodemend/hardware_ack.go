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

	"github.com/nodemend/nodemend/internal/repairnote"
)

// askedAtOnce is how many nodes are asked at a time.
const askedAtOnce = 8

func (t *tool) hardwareAck() *cobra.Command {
	var reason, until string
	var dryRun bool
	var of nodeSet
	cmd := &cobra.Command{
		Use:   "ack NODE...",
		Short: "Acknowledge failures of servers, so that they do not count any more",
		Long: `Acknowledge what the check hardware has found on nodes: all that it knows of now, or with
--until what was logged up to that record of the SEL. What comes later counts again.

With -l it is said to nodes whose hardware is not healthy. --dry-run shows them and what they report, and
changes nothing. It is written on the node, by kubectl exec in the pod of its detector.`,
		Example: `  kubectl nodemend hardware ack worker-17 --until 0x1a --reason "DIMM A1 exchanged, ticket 4711"
  kubectl nodemend hardware ack -l rack=r7 --reason "feed B was off, ticket 4712" --dry-run`,
		Args:              of.args,
		ValidArgsFunction: t.completeNodes,
	}
	of.addTo(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why it does not count (required)")
	cmd.Flags().StringVar(&until, "until", "", "`ID` of the last SEL record that is meant, such as 0x1a; of one node")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be acknowledged, and acknowledge nothing")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		if reason = strings.TrimSpace(reason); reason == "" {
			return errors.New("say with --reason why it does not count")
		}
		if until != "" && len(args) != 1 {
			return errors.New("--until names a record of one server's SEL: name that node alone")
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
		if dryRun {
			for i := range nodes {
				t.printf("node %s: %s\n", nodes[i].Name, reported(&nodes[i]))
			}
			return nil
		}
		command := []string{"hardware", "ack", "--reason=" + reason}
		if by := person(ctx, c); by != "" {
			command = append(command, "--by="+by)
		}
		if until != "" {
			command = append(command, "--until="+until)
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

// reported is what the check says of a node.
func reported(n *corev1.Node) string {
	i := slices.IndexFunc(n.Status.Conditions, isHardwareFailure)
	if i < 0 {
		return "reports nothing of its hardware"
	}
	return repairnote.Said(n.Status.Conditions[i].Message)
}

// eachNode asks nodes, some at once, and prints the answers in their order.
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
	for i := range nodes {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("node %s: %w", nodes[i].Name, errs[i])
			continue
		}
		t.printf("node %s: %s\n", nodes[i].Name, strings.TrimSpace(answers[i]))
	}
	return errors.Join(errs...)
}
