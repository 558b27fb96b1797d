package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

// node returns the node of this name.
func node(ctx context.Context, c client.Client, name string) (*corev1.Node, error) {
	var n corev1.Node
	err := c.Get(ctx, types.NamespacedName{Name: name}, &n)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no node %q; see kubectl get nodes", name)
	}
	return &n, err
}

// remediationsOf returns the remediations of a node, newest first.
func remediationsOf(ctx context.Context, c client.Client, nodeName string) ([]v1alpha1.Remediation, error) {
	var list v1alpha1.RemediationList
	var opts []client.ListOption
	if nodeName != "" {
		opts = append(opts, client.MatchingFields{index.ByNode: nodeName})
	}
	if err := c.List(ctx, &list, opts...); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Remediation) int {
		if c := b.StartedAt().Compare(a.StartedAt().Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, nil
}

// findRemediation returns the remediation of this name, or the only one of the node of
// this name that is as wanted, which is said in words.
func findRemediation(ctx context.Context, c client.Client, name, words string, wanted func(*v1alpha1.Remediation) bool) (*v1alpha1.Remediation, error) {
	var r v1alpha1.Remediation
	err := c.Get(ctx, types.NamespacedName{Name: name}, &r)
	if err == nil || !apierrors.IsNotFound(err) {
		return &r, err
	}
	all, err := remediationsOf(ctx, c, name)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(slices.Clone(all), func(r v1alpha1.Remediation) bool { return !wanted(&r) })
	switch {
	case len(found) == 1:
		return &found[0], nil
	case len(found) > 1:
		names := make([]string, len(found))
		for i := range found {
			names[i] = found[i].Name
		}
		return nil, fmt.Errorf("node %s has %d remediations that are %s; name one: %s", name, len(found), words, strings.Join(names, ", "))
	case len(all) > 0:
		return nil, fmt.Errorf("node %s has no remediation that is %s; see kubectl nodemend history %s", name, words, name)
	default:
		return nil, fmt.Errorf("there is no remediation %q, and no node of that name has one; see kubectl nodemend history", name)
	}
}

func open(r *v1alpha1.Remediation) bool { return !r.Ended() }

// person returns the name by which the API server knows who runs this, "" if it does not
// tell: a name for people is not worth an error.
func person(ctx context.Context, c client.Client) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// signature is the value of an annotation that names who does this, and nil, which removes
// it, where the name is not known.
func signature(what, by string) any {
	if by == "" {
		return nil
	}
	return v1alpha1.Signed(what, by)
}

// signed returns a reason with who gives it; where that is too long for the API, it is
// the reason that is cut off.
func signed(reason, by string) string {
	if by == "" {
		by = "somebody"
	}
	by = clip(", says " + by)
	text, runes := reason+by, []rune(reason)
	excess := utf8.RuneCountInString(text) - utf8.RuneCountInString(clip(text))
	return string(runes[:len(runes)-excess]) + by
}
