//go:build integration

package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

const (
	benchNodes = 50
	benchPods  = 1000
	// benchWorkers is how many nodes are looked at a time, as by a reconciler. With 50,
	// 800 evictions are under way, of which flow control refuses some; the bare client
	// sleeps then, so that it is no measure any more.
	benchWorkers = 16
	benchRounds  = 3
)

// BenchmarkDrain drains 1,000 pods off 50 nodes and evicts as many with a bare client
// of the same parallelism and encoding, by turns. Neither has a limit of its own (QPS
// -1); the API server's flow control applies to both as it does to a controller. It
// measures three rounds, whatever -benchtime says, and reports the medians:
//
//	make bench BENCH=Drain PKG=./controller/drain
func BenchmarkDrain(b *testing.B) {
	s := newScene(b, "bench", benchNodes)
	user := s.evictor()
	var bare, drained, ratios, seconds []float64
	refused := 0.0
	for round := range benchRounds {
		bare = append(bare, s.bare(user, round))
		rate, again, took := s.drainAll(user, round)
		drained, ratios, seconds = append(drained, rate), append(ratios, rate/bare[round]), append(seconds, took.Seconds())
		refused += float64(again)
	}
	b.Run(fmt.Sprintf("%d-pods-%d-nodes", benchPods, benchNodes), func(b *testing.B) {
		b.Logf("by turns: bare %.0f/s, drains %.0f/s", bare, drained)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median(drained), "evictions/s")
		b.ReportMetric(median(bare), "bare-evictions/s")
		b.ReportMetric(median(ratios), "of-bare")
		b.ReportMetric(median(seconds), "s-to-done")
		b.ReportMetric(refused, "refused")
	})
}

func median(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }

// evictor returns the config of a service account that may do what a drain needs.
func (s *scene) evictor() *rest.Config {
	s.Helper()
	_, err := s.client.RbacV1().ClusterRoles().Create(s.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
			{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.RbacV1().ClusterRoleBindings().Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	s.must(err)
	cfg := clustertest.Shared(s).UserConfig("system:serviceaccount:"+s.namespace+":default", "system:serviceaccounts", "system:serviceaccounts:"+s.namespace)
	cfg.QPS = -1
	return cfg
}

// fill makes the pods, spread evenly, and waits until they run.
func (s *scene) fill(prefix string) []string {
	s.Helper()
	names := make([]string, benchPods)
	workqueue.ParallelizeUntil(s.ctx, parallel, benchPods, func(i int) {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		s.create(names[i], s.nodes[i%benchNodes])
	})
	s.await("the pods to run", func() bool {
		list, err := s.client.CoreV1().Pods(s.namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
		s.must(err)
		return len(list.Items) == benchPods
	})
	return names
}

// bare evicts the pods with a plain client and returns how many a second.
func (s *scene) bare(user *rest.Config, round int) float64 {
	s.Helper()
	user = rest.CopyConfig(user)
	user.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(user)
	s.must(err)
	names := s.fill(fmt.Sprintf("bare-%d", round))
	errs := make([]error, benchPods)
	began := time.Now()
	workqueue.ParallelizeUntil(s.ctx, benchWorkers*parallel, benchPods, func(i int) {
		errs[i] = client.PolicyV1().Evictions(s.namespace).Evict(s.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names[i]}})
	})
	took := time.Since(began)
	s.must(errors.Join(errs...))
	s.await("the pods to go", func() bool {
		list, err := s.client.CoreV1().Pods(s.namespace).List(s.ctx, metav1.ListOptions{})
		s.must(err)
		return len(list.Items) == 0
	})
	return benchPods / took.Seconds()
}

// drainAll drains all nodes and returns how many pods a second were told to end, with
// the lists that this takes, how many evictions had to be tried again, and how long it
// took until all pods were seen gone.
func (s *scene) drainAll(user *rest.Config, round int) (rate float64, again int32, total time.Duration) {
	s.Helper()
	httpClient, err := rest.HTTPClientFor(user)
	s.must(err)
	d, err := New(user, httpClient, clock.RealClock{})
	s.must(err)
	s.fill(fmt.Sprintf("drained-%d", round))
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	workers := make(chan struct{}, benchWorkers)
	told := make([]time.Duration, benchNodes) // when all pods of the node were told to end
	var refused atomic.Int32
	began := time.Now()
	workqueue.ParallelizeUntil(ctx, benchNodes, benchNodes, func(i int) {
		for {
			workers <- struct{}{}
			r, err := d.Pass(ctx, s.nodes[i], &v1alpha1.Drain{}, true)
			<-workers
			if err != nil {
				s.Error(err)
				return
			}
			waiting := int32(0)
			for _, p := range r.Pods {
				if p.Reason != v1alpha1.PodTerminating {
					waiting++
				}
			}
			refused.Add(waiting)
			if waiting == 0 && told[i] == 0 {
				told[i] = time.Since(began)
			}
			if r.Done {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(r.Next):
			}
		}
	})
	total = time.Since(began)
	if slices.Contains(told, 0) {
		s.Fatalf("some nodes are not drained: %v", told)
	}
	return benchPods / slices.Max(told).Seconds(), refused.Load(), total
}
