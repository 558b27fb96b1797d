//go:build e2e

package node_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/node"
)

const (
	// startTime is how long a node may take to become Ready; 4 s are usual.
	startTime = 2 * time.Minute
	// patience is how long all else may take; a pod takes 2 s.
	patience = time.Minute
)

// scene is a node with what a test needs to look at it.
type scene struct {
	*WithT
	t    *testing.T
	ctx  context.Context
	node *node.Node
	api  kubernetes.Interface
}

func start(t *testing.T, name string) *node.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	n, err := node.Start(ctx, node.Options{Cluster: clustertest.Shared(t), Name: name, Log: t.Output()})
	if errors.Is(err, node.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newScene(t *testing.T, n *node.Node) *scene {
	t.Helper()
	api, err := kubernetes.NewForConfig(clustertest.Shared(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{NewWithT(t), t, t.Context(), n, api}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	return s
}

// read decodes the YAML of an object, with the node's name for NODE and the image's for
// BUSYBOX.
func (s *scene) read(manifest string, into any) {
	s.t.Helper()
	text := bytes.ReplaceAll([]byte(manifest), []byte("BUSYBOX"), []byte(node.BusyboxImage))
	s.Expect(yaml.UnmarshalStrict(text, into)).To(Succeed())
}

// deploy creates a Deployment and waits until all of its pods are available.
func (s *scene) deploy(manifest string) {
	s.t.Helper()
	d := &appsv1.Deployment{}
	s.read(manifest, d)
	_, err := s.api.AppsV1().Deployments("default").Create(s.ctx, d, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.deleteAfterwards(func(ctx context.Context) error {
		return s.api.AppsV1().Deployments("default").Delete(ctx, d.Name, metav1.DeleteOptions{})
	})
	s.Eventually(func() (int32, error) {
		got, err := s.api.AppsV1().Deployments("default").Get(s.ctx, d.Name, metav1.GetOptions{})
		return got.Status.AvailableReplicas, err
	}).Should(Equal(*d.Spec.Replicas), "pods are available")
}

func (s *scene) deleteAfterwards(remove func(context.Context) error) {
	s.t.Cleanup(func() {
		if err := remove(context.WithoutCancel(s.ctx)); err != nil {
			s.t.Error(err)
		}
	})
}

// pods returns those of an app that are not being deleted.
func (s *scene) pods(app string) []corev1.Pod {
	s.t.Helper()
	list, err := s.api.CoreV1().Pods("default").List(s.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	s.Expect(err).NotTo(HaveOccurred())
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// said returns what a pod of an app has said.
func (s *scene) said(app string) (string, error) {
	pods := s.pods(app)
	if len(pods) == 0 {
		return "", errors.New("there is no pod")
	}
	return s.node.PodLogs("default", pods[0].Name)
}

func (s *scene) kubectl(arguments ...string) (string, error) {
	return clustertest.Shared(s.t).Kubectl(s.ctx, arguments...)
}

// ready returns the status of the node's condition Ready.
func (s *scene) ready() (corev1.ConditionStatus, error) {
	n, err := s.api.CoreV1().Nodes().Get(s.ctx, s.node.Name, metav1.GetOptions{})
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status, err
		}
	}
	return "", err
}
