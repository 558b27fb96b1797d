//go:build integration

package detector_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/criserver"
)

// defaults are the settings of a user who changes nothing but the socket.
func defaults(b *testing.B, socket string) config.Config {
	c := config.Default()
	c.StateFile, c.Socket = filepath.Join(b.TempDir(), "state.json"), ""
	c.Checks.Only = []string{"runtime"}
	c.Checks.Runtime.Endpoint = "unix://" + socket
	c.Checks.Runtime.StartupGrace.Duration = 0 // this machine may just have booted
	return c
}

// BenchmarkHungRuntime prints how long it takes from a runtime's hang to the
// condition on the Node, at default settings.
func BenchmarkHungRuntime(b *testing.B) {
	const samples = 3
	nodes, name := benchNode(b, "hung")
	socket := filepath.Join(b.TempDir(), "cri.sock")
	runtime, err := criserver.Start(b.Context(), socket, criserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.Stop()
	defer runDetectors(b, clustertest.Shared(b).Config, defaults(b, socket), name)()
	var took []time.Duration
	for range samples {
		await(b, nodes, name, corev1.ConditionFalse)
		began := time.Now()
		runtime.Hang()
		await(b, nodes, name, corev1.ConditionTrue)
		took = append(took, time.Since(began))
		runtime.Resume()
	}
	slices.Sort(took)
	b.ReportMetric(took[0].Seconds(), "s-to-condition-min")
	b.ReportMetric(took[samples-1].Seconds(), "s-to-condition-max")
}

// BenchmarkSlowRuntime prints which conditions a runtime has whose every call
// takes 5 s, for a minute at default settings.
func BenchmarkSlowRuntime(b *testing.B) {
	nodes, name := benchNode(b, "slow")
	socket := filepath.Join(b.TempDir(), "cri.sock")
	runtime, err := criserver.Start(b.Context(), socket, criserver.Options{Delay: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.Stop()
	watch, err := nodes.Watch(b.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	defer watch.Stop()
	c := defaults(b, socket)
	c.Heartbeat.Interval.Duration, c.Heartbeat.ProblemInterval.Duration = time.Second, time.Second
	defer runDetectors(b, clustertest.Shared(b).Config, c, name)()
	healthy, problem := 0, 0
	for over := time.After(time.Minute); ; {
		select {
		case event := <-watch.ResultChan():
			switch status(event.Object.(*corev1.Node)) {
			case corev1.ConditionFalse:
				healthy++
			case corev1.ConditionTrue, corev1.ConditionUnknown:
				problem++
			}
			continue
		case <-over:
		}
		break
	}
	b.ReportMetric(float64(healthy), "healthy-reports")
	b.ReportMetric(float64(problem), "other-reports")
}

// BenchmarkHeartbeats prints the writes of 500 real detectors with a heartbeat of
// 30 s, which are as many as those of 5,000 with the default of 5 min.
func BenchmarkHeartbeats(b *testing.B) {
	const (
		size      = 500
		heartbeat = 30 * time.Second
	)
	socket := filepath.Join(b.TempDir(), "cri.sock")
	runtime, err := criserver.Start(b.Context(), socket, criserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.Stop()
	var names []string
	var nodes corev1client.NodeInterface
	for n := range size {
		var name string
		nodes, name = benchNode(b, fmt.Sprint("heartbeat-", n))
		names = append(names, name)
	}
	c := defaults(b, socket)
	c.StateFile = ""
	c.Heartbeat.Interval.Duration, c.Heartbeat.ProblemInterval.Duration = heartbeat, heartbeat
	defer runDetectors(b, clustertest.Shared(b).Config, c, names...)()
	for _, name := range names {
		await(b, nodes, name, corev1.ConditionFalse)
	}
	watch, err := nodes.Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer watch.Stop()
	perSecond := make([]int, 60)
	began := time.Now()
	for over := time.After(time.Duration(len(perSecond)) * time.Second); ; {
		select {
		case event := <-watch.ResultChan():
			if second := int(time.Since(began).Seconds()); event.Type == "MODIFIED" && second < len(perSecond) {
				perSecond[second]++
			}
			continue
		case <-over:
		}
		break
	}
	sum := 0
	for _, n := range perSecond {
		sum += n
	}
	b.ReportMetric(float64(sum)/float64(len(perSecond)), "writes/s-mean")
	b.ReportMetric(float64(slices.Max(perSecond)), "writes/s-max")
}

// benchNode makes a Node of its own for every call.
func benchNode(b *testing.B, name string) (corev1client.NodeInterface, string) {
	b.Helper()
	client, err := corev1client.NewForConfig(clustertest.Shared(b).Config)
	if err != nil {
		b.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-" + name + "-"}}
	if node, err = client.Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return client.Nodes(), node.Name
}

// runDetectors runs a detector for each Node until the returned function is
// called.
func runDetectors(b *testing.B, client *rest.Config, c config.Config, names ...string) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), klog.Logger{}))
	var running sync.WaitGroup
	for _, name := range names {
		running.Go(func() {
			if err := detector.Run(ctx, detector.Options{NodeName: name, Config: c, Client: client, WithoutEvents: true}); err != nil {
				b.Error(err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func status(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == containerruntime.ConditionType {
			return c.Status
		}
	}
	return ""
}

// await returns when the condition of the Node has the status.
func await(b *testing.B, nodes corev1client.NodeInterface, name string, want corev1.ConditionStatus) {
	b.Helper()
	watch, err := nodes.Watch(b.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	defer watch.Stop()
	over := time.After(2 * time.Minute)
	for {
		select {
		case event := <-watch.ResultChan():
			if node, ok := event.Object.(*corev1.Node); ok && status(node) == want {
				return
			}
		case <-over:
			b.Fatalf("the condition of %s did not become %s within two minutes", name, want)
		}
	}
}
