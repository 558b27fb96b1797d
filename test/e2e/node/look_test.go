//go:build e2e

package node_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// The conditions that scenarios are about.
const (
	runtimeCondition = "ContainerRuntimeUnhealthy"
	plegCondition    = "PLEGUnhealthy"
	kubeletCondition = "KubeletUnhealthy"
)

func ours() []corev1.NodeConditionType {
	return []corev1.NodeConditionType{runtimeCondition, plegCondition, kubeletCondition, faultCondition}
}

func (s *scenario) kubectlMust(arguments ...string) string {
	s.Helper()
	out, err := s.kubectl(s.Ctx, arguments...)
	s.Must(err)
	return out
}

// run runs a script of the shell on the node with the fault.
func (s *scenario) run(script string) string {
	s.Helper()
	out, err := s.node.Exec(s.Ctx, "sh", "-c", script)
	s.Must(err)
	return strings.TrimSpace(out)
}

func (s *scenario) object(n *node.Node) *corev1.Node {
	s.Helper()
	object := &corev1.Node{}
	s.Must(s.Get(s.Ctx, client.ObjectKey{Name: n.Name}, object))
	return object
}

// untilHealthy waits until all real nodes are well and in service.
func (s *scenario) untilHealthy() {
	s.Helper()
	s.Until(round, "all nodes are healthy and in service", s.healthy)
}

// healthy tells whether all real nodes are well, by what checks have seen, and in service.
func (s *scenario) healthy() (bool, string) {
	s.Helper()
	var ill []string
	for _, n := range s.nodes {
		object := s.object(n)
		if c := story.Condition(object, corev1.NodeReady); c.Status != corev1.ConditionTrue {
			ill = append(ill, n.Name+" "+story.Describe(c))
		}
		for _, conditionType := range ours() {
			if c := story.Condition(object, conditionType); c.Status != corev1.ConditionFalse {
				ill = append(ill, n.Name+" "+story.Describe(c))
			}
		}
		if object.Spec.Unschedulable {
			ill = append(ill, n.Name+" is cordoned")
		}
	}
	return len(ill) == 0, strings.Join(ill, ", ")
}

// pods returns those of a node that are not being deleted.
func (s *scenario) pods(nodeName string) []corev1.Pod {
	s.Helper()
	list := &corev1.PodList{}
	s.Must(s.List(s.Ctx, list, &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", nodeName)}))
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// pod returns that of a role on the node with the fault, which has to be one.
func (s *scenario) pod(role string) *corev1.Pod {
	s.Helper()
	pods := slices.DeleteFunc(s.pods(s.node.Name), func(pod corev1.Pod) bool { return pod.Labels["app.kubernetes.io/component"] != role })
	if len(pods) != 1 {
		s.Fatalf("there are %d pods of the %s on node %s, want one", len(pods), role, s.node.Name)
	}
	return &pods[0]
}

// replaced waits until a pod of the node has gone and another one of its role is Ready.
func (s *scenario) replaced(old *corev1.Pod) {
	s.Helper()
	role := old.Labels["app.kubernetes.io/component"]
	s.Until(round, "another pod of the "+role+" is Ready", func() (bool, string) {
		for _, pod := range s.pods(s.node.Name) {
			if pod.Labels["app.kubernetes.io/component"] != role || pod.UID == old.UID {
				continue
			}
			if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				return true, ""
			}
			return false, fmt.Sprintf("%s is %s", pod.Name, pod.Status.Phase)
		}
		return false, "there is none"
	})
}

// containers returns those of the node's pods that run, by pod and container, with all
// that changes if one is started again, as the API server and the runtime have it.
func (s *scenario) containers() map[string]string {
	s.Helper()
	tasks := s.run("ctr --namespace=k8s.io tasks ls")
	found := map[string]string{}
	for _, pod := range s.pods(s.node.Name) {
		for _, c := range pod.Status.ContainerStatuses {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			_, task, _ := strings.Cut(tasks, id)
			process, _, _ := strings.Cut(task, "\n")
			found[pod.Name+"/"+c.Name] = fmt.Sprintf("%s, %d restarts, process %s", id, c.RestartCount, strings.Join(strings.Fields(process), " "))
		}
	}
	return found
}

// untouched proves that containers are what they were.
func (s *scenario) untouched(before map[string]string) {
	s.Helper()
	if len(before) == 0 {
		s.Fatal("no container was there before")
	}
	after := s.containers()
	for name, container := range before {
		if after[name] != container {
			s.Fatalf("container %s was %q and is %q", name, container, after[name])
		}
	}
	s.Proved("%d containers are the same processes as before", len(before))
}

func endsWith(text, line string) bool { return strings.HasSuffix(strings.TrimSpace(text), line) }
