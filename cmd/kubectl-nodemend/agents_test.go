package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestRolesOfDifferentVersionsAreTold(t *testing.T) {
	const problem = "they are of different versions: controller "
	for _, tt := range []struct{ controller, runner, want string }{
		{"ghcr.io/nodemend/nodemend:v0.9.0", "ghcr.io/nodemend/nodemend:v0.9.0", ""},
		{"ghcr.io/nodemend/nodemend:v0.9.0", "mirror:5000/nodemend:v0.9.0@sha256:12", ""},
		{"ghcr.io/nodemend/nodemend:v0.9.0", "ghcr.io/nodemend/nodemend:v0.7.0", problem + "v0.9.0, runner v0.7.0"},
		{"nodemend@sha256:12", "nodemend@sha256:34", problem + "sha256:12, runner sha256:34"},
		{"mirror:5000/nodemend", "nodemend:v0.7.0", problem + "-, runner v0.7.0"},
	} {
		spec := func(role, image string) (metav1.ObjectMeta, corev1.PodTemplateSpec) {
			return metav1.ObjectMeta{Name: role, Namespace: "n", Labels: map[string]string{nameLabel: "nodemend", componentLabel: role}},
				corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		}
		var controller appsv1.Deployment
		var runner appsv1.DaemonSet
		controller.ObjectMeta, controller.Spec.Template = spec("controller", tt.controller)
		runner.ObjectMeta, runner.Spec.Template = spec("runner", tt.runner)
		all, _ := agents(t.Context(), fake.NewClientBuilder().WithObjects(&controller, &runner).Build(), nil)
		var got []string
		for _, a := range slices.DeleteFunc(all, func(a agentStatus) bool { return a.Problem == "" }) {
			got = append(got, a.Problem)
		}
		if got := strings.Join(got, ";"); got != tt.want {
			t.Errorf("%s and %s: got %q, want %q", tt.controller, tt.runner, got, tt.want)
		}
	}
}

// Whoever may create workloads in some namespace may label them as they like.
func TestWorkloadsThatOthersHaveLabelledAreNotNodemends(t *testing.T) {
	labelled := func(namespace string) []client.Object {
		meta := metav1.ObjectMeta{Name: "controller", Namespace: namespace, Labels: map[string]string{nameLabel: "nodemend", componentLabel: "controller"}}
		return []client.Object{&appsv1.Deployment{ObjectMeta: meta}, &appsv1.DaemonSet{ObjectMeta: meta}}
	}
	of := func(objects ...client.Object) ([]agentStatus, []appsv1.Deployment) {
		return agents(t.Context(), fake.NewClientBuilder().WithObjects(objects...).Build(), nil)
	}
	two := slices.Concat(labelled("aaa"), labelled("nodemend-system"))
	if found, deployments := of(append(two, bound("nodemend-controller", "nodemend-system"))...); len(found) != 2 || len(deployments) != 1 || deployments[0].Namespace != "nodemend-system" {
		t.Errorf("got %+v and %d Deployments", found, len(deployments))
	}
	if found, deployments := of(two...); len(deployments) > 0 || len(found) != 1 || !strings.Contains(found[0].Problem, "in the namespaces aaa, nodemend-system are labelled") {
		t.Errorf("which are Nodemend's nobody knows: got %+v and %d Deployments", found, len(deployments))
	}
	if found, deployments := of(append(labelled("aaa"), bound("nodemend-controller", "nodemend-system"))...); len(deployments) > 0 || len(found) != 1 || !strings.HasPrefix(found[0].Problem, "none runs") {
		t.Errorf("there are but others': got %+v and %d Deployments", found, len(deployments))
	}
	if found, deployments := of(labelled("nodemend-system")...); len(found) != 2 || len(deployments) != 1 {
		t.Errorf("in one namespace: got %+v and %d Deployments", found, len(deployments))
	}
}

func TestNodesThatLackAPodAreThoseThatShouldHaveOne(t *testing.T) {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "n", Labels: map[string]string{nameLabel: "nodemend", componentLabel: "detector"}}}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"canary": "yes"}
	d.Status.DesiredNumberScheduled = 1
	nodes := []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "canary", Labels: map[string]string{corev1.LabelOSStable: "linux", "canary": "yes"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{corev1.LabelOSStable: "linux"}}},
	}
	pods := 0
	look := func() []agentStatus {
		c := fake.NewClientBuilder().WithObjects(d.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*corev1.PodList); ok {
					pods++
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
		all, _ := agents(t.Context(), c, nodes)
		return all
	}
	if all := look(); len(all) != 1 || !slices.Equal(all[0].Missing, []string{"canary"}) {
		t.Errorf("got %+v", all)
	}
	pods, d.Status.NumberReady = 0, 1
	if all := look(); pods != 0 {
		t.Errorf("the pods of all nodes are listed, of which nobody asks: %+v", all)
	}
}
