package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// detectorAccount is the ServiceAccount of the detector.
const detectorAccount = "nodemend-detector"

// home returns the namespace of Nodemend: that of the ServiceAccounts which have its rights in the
// cluster, as its administrator has said. Labels and names prove nothing: they are for everybody to
// choose who may create pods somewhere.
func home(ctx context.Context, c client.Client) (string, error) {
	var namespaces []string
	for _, name := range []string{detectorAccount, "nodemend-controller", "nodemend-runner"} {
		var binding rbacv1.ClusterRoleBinding
		err := c.Get(ctx, client.ObjectKey{Name: name}, &binding)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("looking for the namespace of Nodemend: %w", err)
		}
		for _, s := range binding.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Name == name && !slices.Contains(namespaces, s.Namespace) {
				namespaces = append(namespaces, s.Namespace)
			}
		}
	}
	switch len(namespaces) {
	case 0:
		return "", errors.New("there is none of the ClusterRoleBindings nodemend-detector, nodemend-controller and nodemend-runner, which say in which namespace Nodemend is: install it as deploy/install.yaml or the chart does")
	case 1:
		return namespaces[0], nil
	default:
		return "", fmt.Errorf("the ClusterRoleBindings of Nodemend name the namespaces %s: remove those of an earlier installation, as kubectl get clusterrolebindings -o wide shows them", strings.Join(namespaces, ", "))
	}
}
