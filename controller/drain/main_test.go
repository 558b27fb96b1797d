//go:build integration

package drain

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{ControllerManager: true, Kwok: true}))
}

// patience bounds every wait: only what hangs needs it.
const patience = 5 * time.Minute

// scene is a namespace and nodes for one test.
type scene struct {
	testing.TB
	ctx       context.Context
	client    kubernetes.Interface
	namespace string
	nodes     []string
	owner     metav1.OwnerReference
}

// newScene makes nodes and a namespace in which pods can be made. Their names start
// with prefix.
func newScene(t testing.TB, prefix string, nodes int) *scene {
	t.Helper()
	name := prefix + "-" + rand.String(5)
	c := clustertest.Shared(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*patience)
	t.Cleanup(cancel)
	client, err := kubernetes.NewForConfig(c.Config)
	s := &scene{TB: t, ctx: ctx, client: client, namespace: name}
	s.must(err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.must(err)
	s.nodes, err = c.AddNodes(ctx, nodes, name, nil)
	s.must(err)
	s.await("the service account", func() bool {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	owner, err := client.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	s.must(err)
	// For a drain whatever controls a pod is as good as a ReplicaSet.
	s.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await polls until it is so.
func (s *scene) await(what string, so func() bool) {
	s.Helper()
	if err := wait.PollUntilContextTimeout(s.ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil }); err != nil {
		s.Fatalf("waiting for %s: %v", what, err)
	}
}

// create makes a pod on a node.
func (s *scene) create(name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, OwnerReferences: []metav1.OwnerReference{s.owner}},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	pod, err := s.client.CoreV1().Pods(s.namespace).Create(s.ctx, pod, metav1.CreateOptions{})
	s.must(err)
	return pod
}

// awaitRunning waits for kwok to start the pods.
func (s *scene) awaitRunning(names ...string) {
	s.Helper()
	for _, name := range names {
		s.await("pod "+name+" to run", func() bool {
			pod := s.pod(name)
			return pod != nil && pod.Status.Phase == corev1.PodRunning
		})
	}
}

// pod returns a pod, nil if there is none.
func (s *scene) pod(name string) *corev1.Pod {
	s.Helper()
	pod, err := s.client.CoreV1().Pods(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return pod
}

// drainer returns one without a limit of its own, over connections that wrap changes.
func (s *scene) drainer(clk clock.PassiveClock, wrap func(*rest.Config)) *Drainer {
	s.Helper()
	cfg := rest.CopyConfig(clustertest.Shared(s).Config)
	cfg.QPS = -1
	if wrap != nil {
		wrap(cfg)
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	s.must(err)
	d, err := New(cfg, httpClient, clk)
	s.must(err)
	return d
}

func (s *scene) pass(d *Drainer, node string, options *v1alpha1.Drain) Result {
	s.Helper()
	r, err := d.Pass(s.ctx, node, options, true)
	s.must(err)
	return r
}

// drain passes as often as the results say, until one is as wanted.
func (s *scene) drain(d *Drainer, node string, options *v1alpha1.Drain, wanted func(Result) bool) Result {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	for {
		r := s.pass(d, node, options)
		if wanted(r) {
			return r
		}
		select {
		case <-ctx.Done():
			s.Fatalf("node %s is left with %+v", node, r)
		case <-time.After(r.Next):
		}
	}
}

func done(r Result) bool { return r.Done }

// reasons maps the pods that are left to why.
func reasons(r Result) map[string]v1alpha1.PodReason {
	m := map[string]v1alpha1.PodReason{}
	for _, p := range r.Pods {
		m[p.Name] = p.Reason
	}
	return m
}

func forceDelete(s *scene, name string) {
	s.must(s.client.CoreV1().Pods(s.namespace).Delete(s.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
}

func patchFinalizers(s *scene, name, to string) {
	_, err := s.client.CoreV1().Pods(s.namespace).Patch(s.ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, to), metav1.PatchOptions{})
	s.must(err)
}
