//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/offline"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/policy"
)

// cluster is what a cluster says about policies in files.
type cluster struct {
	api      client.Client // its writes are dry runs
	nodes    []*corev1.Node
	policies []v1alpha1.RemedyPolicy
	budgets  []v1alpha1.RemediationBudget
}

// askCluster reads what there is in the cluster.
func askCluster(ctx context.Context, kubeconfig string) (*cluster, error) {
	ctrl.SetLogger(logr.FromContextOrDiscard(ctx)) // where it finds no other
	cfg, err := restConfig(kubeconfig, "policy-check")
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	api, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("asking the cluster: %w", err)
	}
	var nodes corev1.NodeList
	var policies v1alpha1.RemedyPolicyList
	var budgets v1alpha1.RemediationBudgetList
	for _, list := range []client.ObjectList{&nodes, &policies, &budgets} {
		if err := api.List(ctx, list); err != nil {
			return nil, fmt.Errorf("asking the cluster: %w", err)
		}
	}
	c := &cluster{
		api:      client.WithFieldValidation(client.NewDryRunClient(api), metav1.FieldValidationStrict),
		policies: policies.Items, budgets: budgets.Items,
	}
	for i := range nodes.Items {
		c.nodes = append(c.nodes, &nodes.Items[i])
	}
	return c, nil
}

// addTo adds to what is known which conditions nodes report, and the policies.
func (c *cluster) addTo(known *offline.Known) {
	known.Policies = c.policies
	known.Conditions = maps.Clone(known.Conditions)
	for _, node := range c.nodes {
		for i := range node.Status.Conditions {
			t := string(node.Status.Conditions[i].Type)
			known.Conditions[t] = max(known.Conditions[t], 0)
		}
	}
}

// check adds to a report what the API server refuses, and why policies could not act. It
// fails if the API server does not answer.
func (c *cluster) check(ctx context.Context, report *offline.Report) error {
	for _, valid := range report.Valid {
		err := c.apply(ctx, valid.Object)
		if err == nil {
			continue
		}
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
			return fmt.Errorf("asking the cluster about %s: %w", valid.At.Object, err)
		}
		problem := valid.At
		problem.Field, problem.Message = "", "the cluster refuses it: "+err.Error()
		report.Problems = append(report.Problems, problem)
	}
	budgets := slices.Clone(report.Budgets)
	for i := range c.budgets {
		if !slices.ContainsFunc(budgets, func(b v1alpha1.RemediationBudget) bool { return b.Name == c.budgets[i].Name }) {
			budgets = append(budgets, c.budgets[i])
		}
	}
	c.templates(ctx, report)
	counts := policy.Count(report.Policies, budgets, c.nodes)
	for i := range report.Policies {
		p := &report.Policies[i]
		ready := policy.Ready(&p.Spec, &counts[i])
		if ready.Status == metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonNoRemediationAllowed || // warned of already
			ready.Reason == v1alpha1.ReasonNotReported && doubted(report, p.Name) {
			continue
		}
		at := slices.IndexFunc(report.Valid, func(v offline.Valid) bool { return v.At.Object == "RemedyPolicy/"+p.Name })
		if at < 0 { // its name is to be generated
			continue
		}
		warning := report.Valid[at].At
		warning.Field, warning.Message = "", "in the cluster: "+ready.Message
		report.Warnings = append(report.Warnings, warning)
	}
	return nil
}

// templates warns of templates of external steps that the cluster does not give.
func (c *cluster) templates(ctx context.Context, report *offline.Report) {
	for i := range report.Policies {
		p := &report.Policies[i]
		at := slices.IndexFunc(report.Valid, func(v offline.Valid) bool { return v.At.Object == "RemedyPolicy/"+p.Name })
		for number := range p.Spec.Steps {
			external := p.Spec.Steps[number].External
			if external == nil || at < 0 {
				continue
			}
			ref, template := &external.TemplateRef, &unstructured.Unstructured{}
			template.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
			if err := c.api.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, template); err != nil {
				warning := report.Valid[at].At
				warning.Field, warning.Message = fmt.Sprintf("spec.steps[%d].external.templateRef", number), "in the cluster: the step would be held: "+err.Error()
				report.Warnings = append(report.Warnings, warning)
			}
		}
	}
}

// doubted reports whether there is a warning about a condition of the policy.
func doubted(report *offline.Report, name string) bool {
	return slices.ContainsFunc(report.Warnings, func(w offline.Problem) bool {
		return w.Object == "RemedyPolicy/"+name && strings.HasPrefix(w.Field, "spec.match[") && strings.HasSuffix(w.Field, "].type")
	})
}

// apply asks the API server whether it would take the object.
func (c *cluster) apply(ctx context.Context, object map[string]any) error {
	obj := &unstructured.Unstructured{Object: object}
	unstructured.RemoveNestedField(object, "status")
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	obj.SetUID("")
	if obj.GetName() == "" {
		return c.api.Create(ctx, obj)
	}
	return c.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("nodemend-policy-check"), client.ForceOwnership)
}
