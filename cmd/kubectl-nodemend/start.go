package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/controller/remediation"
)

func (t *tool) runCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "run POLICY NODE",
		Short: "Start a policy's remediation by hand, through all gates",
		Long: `Start the remediation of a policy on a node now, without waiting until its condition
has held for its time, or after the incident's remediation was cancelled. One of the
conditions that the policy matches must be there: what is not broken is not mended.

All gates are asked as always. With --dry-run they are asked, and nothing is started.`,
		Example: `  kubectl nodemend run container-runtime worker-17 --dry-run
  kubectl nodemend run container-runtime worker-17`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: t.completeRun,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done and what holds it back, and start nothing")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		n, err := node(ctx, c, args[1])
		if err != nil {
			return err
		}
		r, err := t.byHand(ctx, c, args[0], n)
		if err != nil {
			return err
		}
		if dryRun {
			return t.rehearse(ctx, c, n, r)
		}
		if by := person(ctx, c); by != "" {
			r.Annotations = map[string]string{v1alpha1.StartedByAnnotation: by}
		}
		snapshot, err := asPolicySays(ctx, c, r)
		if err != nil {
			return err
		}
		if err := c.Create(ctx, snapshot, fieldOwner); apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("the controller has started remediation %s just now; see kubectl nodemend why %s", r.Name, args[1])
		} else if err != nil {
			return err
		}
		t.printf("remediation %s started; see kubectl nodemend why %s\n", r.Name, args[1])
		return nil
	})
	return cmd
}

// byHand returns the remediation that is to be started.
func (t *tool) byHand(ctx context.Context, c client.Client, policyName string, n *corev1.Node) (*v1alpha1.Remediation, error) {
	nodeName := n.Name
	var policy v1alpha1.RemedyPolicy
	if err := c.Get(ctx, types.NamespacedName{Name: policyName}, &policy); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no policy %q; see kubectl get remedypolicies", policyName)
	} else if err != nil {
		return nil, err
	}
	selected, err := fleet.Selects(policy.Spec.NodeSelector, n)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", policyName, err)
	}
	if !selected {
		return nil, fmt.Errorf("policy %s does not select node %s: see its spec.nodeSelector", policyName, nodeName)
	}
	if len(policy.Spec.Match) == 0 {
		return nil, fmt.Errorf("policy %s has no match, so it is not for people to start: NodeHealthCheck or a MachineHealthCheck does, by a NodemendRemediation (docs/others.md)", policyName)
	}
	known, err := remediationsOf(ctx, c, nodeName)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(known, func(r v1alpha1.Remediation) bool {
		return !r.Ended() && r.Spec.Policy.UID == policy.UID && r.Spec.NodeUID == n.UID
	}); i >= 0 {
		return nil, fmt.Errorf("remediation %s of policy %s is open on node %s: it is %s", known[i].Name, policyName, nodeName, standing(&known[i]))
	}
	trigger := match.Now(&policy, n, t.clock.Now())
	if trigger == nil {
		var now []string
		for i := range policy.Spec.Match {
			if old := ignored(&policy.Spec.Match[i], n, t.clock.Now()); old != "" {
				now = append(now, old)
				continue
			}
			m := conditionNow(&policy.Spec.Match[i], n)
			now = append(now, fmt.Sprintf("%s is wanted, it is %s", m.Match, m.Now))
		}
		return nil, fmt.Errorf("node %s has none of the conditions that policy %s matches: %s", nodeName, policyName, strings.Join(now, "; "))
	}
	return match.NewRemediation(&policy, n, *trigger, match.Latest(known, n, &policy)), nil
}

// asPolicySays returns the remediation with match, steps and recovery to the letter of its
// policy: admission compares them as text, for which 90s is not 1m30s.
func asPolicySays(ctx context.Context, c client.Client, r *v1alpha1.Remediation) (*unstructured.Unstructured, error) {
	var policy unstructured.Unstructured
	policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RemedyPolicy"))
	if err := c.Get(ctx, types.NamespacedName{Name: r.Spec.Policy.Name}, &policy); err != nil {
		return nil, fmt.Errorf("reading policy %s: %w", r.Spec.Policy.Name, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, fmt.Errorf("writing remediation %s: %w", r.Name, err)
	}
	snapshot := &unstructured.Unstructured{Object: fields}
	snapshot.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Remediation"))
	for _, field := range []string{"match", "steps", "recovery"} {
		said, _, err := unstructured.NestedFieldCopy(policy.Object, "spec", field)
		if err == nil {
			err = unstructured.SetNestedField(snapshot.Object, said, "spec", field)
		}
		if err != nil {
			return nil, fmt.Errorf("reading policy %s: %w", r.Spec.Policy.Name, err)
		}
	}
	return snapshot, nil
}

// rehearse shows what the controller would do about the remediation first.
func (t *tool) rehearse(ctx context.Context, c client.Client, n *corev1.Node, r *v1alpha1.Remediation) error {
	p := newWhyPolicy(r.Spec.Policy.Name, "dry run")
	explainer, err := remediation.NewExplainer(ctx, c, t.clock)
	if err != nil {
		return err
	}
	if err := t.explain(ctx, explainer, p, n, r); err != nil {
		return err
	}
	p.Remediation = ""
	var text strings.Builder
	t.whyPolicyText(&text, p, true)
	return t.print("", p, func() string { return t.folded(strings.TrimLeft(text.String(), "\n")) })
}

func (t *tool) completeRun(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return t.complete(&v1alpha1.RemedyPolicyList{}, &corev1.NodeList{})(cmd, args, toComplete)
}
