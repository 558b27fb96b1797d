package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// pauseOwner is who the API server notes as the owner of a pause. It is the pause's own, so
// that whoever applies the file that the budget or policy came from leaves the pause alone,
// as long as the file says nothing about it.
const pauseOwner = client.FieldOwner("nodemend-pause")

// target is what is paused: a budget, a policy, or the cluster.
type target struct {
	kind, name string
}

func (o target) String() string {
	if o.kind == "" {
		return "the cluster"
	}
	return o.kind + " " + o.name
}

// targets reads arguments such as budget/workers.
func targets(args []string) ([]target, error) {
	if len(args) == 0 {
		return []target{{}}, nil
	}
	var found []target
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" || kind != "budget" && kind != "policy" {
			return nil, fmt.Errorf("cannot pause %q; accepted are budget/NAME and policy/NAME, or nothing for the whole cluster", arg)
		}
		if kind == "budget" && name == v1alpha1.ClusterPauseBudget { // unpaused it would allow what nobody meant
			kind, name = "", ""
		}
		found = append(found, target{kind, name})
	}
	return found, nil
}

func (t *tool) pauseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause [budget/NAME|policy/NAME ...]",
		Short: "Start no new action: in the cluster, of a budget, or by a policy",
		Long: `Start no new action until resume. Without an argument the whole cluster is paused. An
action that runs is finished, a drain for a policy stops where it is, nodes that heal
are given back, and maintenances that people ask for are done.

The reason is shown wherever somebody asks why nothing happens.

The cluster is paused by a RemediationBudget of the name ` + v1alpha1.ClusterPauseBudget + `, which selects all nodes
and is paused; resume deletes it.`,
		Example: `  kubectl nodemend pause --reason "network maintenance until 14:00"
  kubectl nodemend pause budget/workers policy/kubelet --reason "rack move"`,
		ValidArgsFunction: t.completeTargets,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people (required)")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		if reason = strings.TrimSpace(reason); reason == "" {
			return errors.New(`--reason is required: whoever asks why nothing happens reads it, for example --reason "rack move"`)
		}
		by := person(ctx, c)
		return t.setPaused(ctx, c, args, true, signed(reason, by), by)
	})
	return cmd
}

func (t *tool) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "resume [budget/NAME|policy/NAME ...]",
		Short:             "Undo pause",
		Long:              `Undo pause: without an argument that of the cluster, which leaves budgets and policies paused that were paused by name.`,
		Example:           `  kubectl nodemend resume`,
		ValidArgsFunction: t.completeTargets,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		return t.setPaused(ctx, c, args, false, "", "")
	})
	return cmd
}

func (t *tool) setPaused(ctx context.Context, c client.Client, args []string, paused bool, reason, by string) error {
	chosen, err := targets(args)
	if err != nil {
		return err
	}
	var errs []error // whoever stops everything in an emergency is to get all of it but the typing error
	for _, o := range chosen {
		var obj client.Object
		if o.kind == "" {
			obj, err = pauseCluster(ctx, c, paused, reason)
		} else {
			obj, err = pauseOne(ctx, c, o, paused, reason)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !paused {
			t.printf("%s is resumed\n", o)
			continue
		}
		t.printf("%s is paused: %s\n", o, reason)
		if err := sign(ctx, c, obj, by); err != nil { // it is paused, which matters more
			t.printf("your name was not written down: %v\n", err)
		}
	}
	return errors.Join(errs...)
}

// sign names who has paused a budget or a policy as it is now.
func sign(ctx context.Context, c client.Client, obj client.Object, by string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "annotations": map[string]any{v1alpha1.PausedByAnnotation: signature(v1alpha1.Paused(obj), by)},
	}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch), pauseOwner)
}

// pauseOne switches one budget or policy, and returns it.
func pauseOne(ctx context.Context, c client.Client, o target, paused bool, reason string) (client.Object, error) {
	var obj client.Object = &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: o.name}}
	if o.kind == "policy" {
		obj = &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: o.name}}
	}
	change := map[string]any{
		"spec":     map[string]any{"paused": nil, "pauseReason": nil},
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.PausedByAnnotation: nil}},
	}
	if paused {
		spec := map[string]any{"paused": true, "pauseReason": clip(reason)}
		if o.name == v1alpha1.ClusterPauseBudget && o.kind == "budget" {
			spec["nodeSelector"] = nil // with one it would pause these nodes only
		}
		change = map[string]any{"spec": spec}
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	err = c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch), pauseOwner)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s; see kubectl get remediationbudgets,remedypolicies", o)
	}
	return obj, err
}

// pauseCluster creates or deletes the budget that pauses all nodes, and returns it.
func pauseCluster(ctx context.Context, c client.Client, paused bool, reason string) (client.Object, error) {
	b := clusterPause(reason)
	if !paused {
		err := c.Delete(ctx, b)
		if apierrors.IsNotFound(err) {
			return nil, errors.New("the cluster is not paused; budgets and policies that are: kubectl nodemend status")
		}
		return b, err
	}
	err := c.Create(ctx, b, pauseOwner)
	if apierrors.IsAlreadyExists(err) {
		return pauseOne(ctx, c, target{"budget", v1alpha1.ClusterPauseBudget}, true, reason)
	}
	return b, err
}

// clusterPause is the budget that pauses all nodes.
func clusterPause(reason string) *v1alpha1.RemediationBudget {
	return &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget},
		// No permits, should somebody take the pause alone away from it.
		Spec: v1alpha1.RemediationBudgetSpec{Paused: true, PauseReason: clip(reason), MaxConcurrent: ptr.To(intstr.FromInt32(0))},
	}
}

// clip bounds a text for people to what the API takes.
func clip(text string) string {
	const most = 256
	runes := []rune(text)
	return string(runes[:min(len(runes), most)])
}
