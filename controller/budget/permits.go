package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// FieldOwner is the field manager of the controller's writes.
const FieldOwner = client.FieldOwner("nodemend-controller")

// ErrExhausted is wrapped by the error of Take when a budget refuses.
var ErrExhausted = errors.New("no permit")

// Take takes the permit for the node in every one of the budgets, in their
// order, for the remediation. Taking a permit that the remediation holds
// already succeeds. When one refuses, those taken are released again and the
// error wraps ErrExhausted; after any other error the permits may or may not
// be held, and Take is to be called again.
func Take(ctx context.Context, c client.Client, budgets []v1alpha1.RemediationBudget, node *corev1.Node, permit v1alpha1.Permit) error {
	for i := range budgets {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"groups": map[string]any{
			GroupOf(&budgets[i], node): map[string]any{"permits": map[string]v1alpha1.Permit{node.Name: permit}},
		}}})
		if err != nil {
			return fmt.Errorf("writing a permit: %w", err)
		}
		err = c.Status().Patch(ctx, named(budgets[i].Name), client.RawPatch(types.MergePatchType, patch), FieldOwner)
		if err == nil {
			continue
		}
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("taking the permit of budget %s: %w", budgets[i].Name, err)
		}
		refused := fmt.Errorf("%w: budget %s: %s", ErrExhausted, budgets[i].Name, reason(err))
		return errors.Join(refused, Release(ctx, c, budgets[:i], node.Name, permit.Remediation))
	}
	return nil
}

// Release gives back the permits for the node that the remediation holds in
// these budgets. What it does not hold, it leaves alone.
func Release(ctx context.Context, c client.Client, budgets []v1alpha1.RemediationBudget, node, remediation string) error {
	var errs []error
	for i := range budgets {
		_, group, held := Permit(&budgets[i], node)
		if !held {
			continue
		}
		path := "/status/groups/" + group + "/permits/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(node)
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": path + "/remediation", "value": remediation},
			{"op": "remove", "path": path},
		})
		if err != nil {
			return fmt.Errorf("writing the release of a permit: %w", err)
		}
		err = c.Status().Patch(ctx, named(budgets[i].Name), client.RawPatch(types.JSONPatchType, patch), FieldOwner)
		// Invalid: the test failed, the permit is not, or no longer, ours.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			errs = append(errs, fmt.Errorf("releasing the permit of budget %s: %w", budgets[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

func named(name string) *v1alpha1.RemediationBudget {
	return &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// reason returns what the API server's rules said, without the frame around it.
func reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			return cause.Message
		}
	}
	return err.Error()
}
