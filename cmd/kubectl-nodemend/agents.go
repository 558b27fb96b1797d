package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentStatus is how many pods of a role there are.
type agentStatus struct {
	Role   string `json:"role"`
	Wanted int32  `json:"wanted"`
	Ready  int32  `json:"ready"`
	// Version is the tag, or else the digest, of the image that is wanted.
	Version string `json:"version,omitempty"`
	// Old is how many pods are not of the version that is wanted.
	Old int32 `json:"old"`
	// Missing are nodes without a ready pod.
	Missing []string `json:"notReadyOn,omitempty"`
	// Problem is why it can't be told.
	Problem string `json:"problem,omitempty"`
}

// Labels of the roles' workloads and pods.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
)

// agents looks for the workloads of the three roles. Who may not see them, or runs
// them in another way, is told so. It returns the Deployments that it has found, too.
func agents(ctx context.Context, c client.Client, nodes []corev1.Node) ([]agentStatus, []appsv1.Deployment) {
	ours := client.MatchingLabels{nameLabel: "nodemend"}
	var daemons appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&daemons, &deployments} {
		if err := c.List(ctx, list, ours); err != nil {
			return []agentStatus{{Role: "roles", Problem: problem(err)}}, nil
		}
	}
	if problem := onlyOurs(ctx, c, &daemons, &deployments); problem != "" {
		return []agentStatus{{Role: "roles", Problem: problem}}, nil
	}
	var found []agentStatus
	for i := range deployments.Items {
		d := &deployments.Items[i]
		found = append(found, agentStatus{
			Role: d.Labels[componentLabel], Wanted: ptr.Deref(d.Spec.Replicas, 1), Ready: d.Status.ReadyReplicas,
			Version: versionOf(&d.Spec.Template.Spec), Old: d.Status.Replicas - d.Status.UpdatedReplicas,
		})
	}
	var pods *corev1.PodList
	for i := range daemons.Items {
		d := &daemons.Items[i]
		a := agentStatus{
			Role: d.Labels[componentLabel], Wanted: d.Status.DesiredNumberScheduled, Ready: d.Status.NumberReady,
			Version: versionOf(&d.Spec.Template.Spec), Old: d.Status.CurrentNumberScheduled - d.Status.UpdatedNumberScheduled,
		}
		if a.Ready < a.Wanted {
			if pods == nil { // there are thousands of them
				pods = &corev1.PodList{}
				if err := c.List(ctx, pods, ours); err != nil {
					return []agentStatus{{Role: "roles", Problem: problem(err)}}, nil
				}
			}
			a.Missing = without(nodes, pods.Items, d)
		}
		found = append(found, a)
	}
	if len(found) == 0 {
		return []agentStatus{{Role: "roles", Problem: fmt.Sprintf("none runs as a pod with the label %s=nodemend", nameLabel)}}, nil
	}
	slices.SortFunc(found, func(a, b agentStatus) int { return cmp.Compare(a.Role, b.Role) })
	return append(found, differ(found)...), deployments.Items
}

// onlyOurs removes workloads that are not in the namespace of Nodemend. Where nobody can tell which
// that is, they have to be in one; else it says what to do.
func onlyOurs(ctx context.Context, c client.Client, daemons *appsv1.DaemonSetList, deployments *appsv1.DeploymentList) (problem string) {
	var namespaces []string
	for i := range daemons.Items {
		namespaces = append(namespaces, daemons.Items[i].Namespace)
	}
	for i := range deployments.Items {
		namespaces = append(namespaces, deployments.Items[i].Namespace)
	}
	slices.Sort(namespaces)
	if namespaces = slices.Compact(namespaces); len(namespaces) == 0 {
		return ""
	}
	namespace, err := home(ctx, c)
	switch {
	case err != nil && len(namespaces) == 1:
		return ""
	case err != nil:
		return fmt.Sprintf("workloads in the namespaces %s are labelled %s=nodemend, and which of them are Nodemend's is not known: %v",
			strings.Join(namespaces, ", "), nameLabel, explained(err))
	}
	daemons.Items = slices.DeleteFunc(daemons.Items, func(d appsv1.DaemonSet) bool { return d.Namespace != namespace })
	deployments.Items = slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool { return d.Namespace != namespace })
	return ""
}

// differ says so if the roles are not of one version.
func differ(roles []agentStatus) []agentStatus {
	var versions []string
	mixed := false
	for _, a := range roles {
		versions = append(versions, a.Role+" "+dash(a.Version))
		mixed = mixed || a.Version != roles[0].Version
	}
	if !mixed {
		return nil
	}
	return []agentStatus{{Role: "roles", Problem: "they are of different versions: " + strings.Join(versions, ", ")}}
}

// versionOf returns the tag, or else the digest, of a workload's image.
func versionOf(spec *corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	image := spec.Containers[0].Image
	name, digest, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], "@")
	_, tag, _ := strings.Cut(name, ":")
	return cmp.Or(tag, digest)
}

func problem(err error) string {
	if apierrors.IsForbidden(err) {
		return "you may not list daemonsets, deployments and pods"
	}
	return err.Error()
}

// without returns the nodes that should have a pod of the DaemonSet, and have none that is ready.
func without(nodes []corev1.Node, pods []corev1.Pod, d *appsv1.DaemonSet) []string {
	role, wanted := d.Labels[componentLabel], labels.SelectorFromSet(d.Spec.Template.Spec.NodeSelector)
	has := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready && p.Namespace == d.Namespace && p.Labels[componentLabel] == role {
			has[p.Spec.NodeName] = true
		}
	}
	var missing []string
	for i := range nodes {
		if n := &nodes[i]; !has[n.Name] && wanted.Matches(labels.Set(n.Labels)) {
			missing = append(missing, n.Name)
		}
	}
	return missing
}
