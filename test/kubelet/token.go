package kubelet

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodemend/nodemend/test/cluster"
)

// Token makes a service account with this name, in the default namespace, that
// may get these subresources of nodes, by which kubelets authorize: "metrics",
// "healthz", "proxy" and others, and deletes it when the test ends. It returns a bearer token of it. Kubelets know no
// impersonation, so the configs of package cluster are of no use to them.
func Token(t testing.TB, c *cluster.Cluster, name string, subresources ...string) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: name}
	accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: meta}
	for _, subresource := range subresources {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"nodes/" + subresource}, Verbs: []string{"get"},
		})
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(
			client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}),
			accounts.Delete(ctx, name, metav1.DeleteOptions{}),
		); err != nil {
			t.Error(err)
		}
	})
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
