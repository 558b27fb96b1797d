//go:build integration

package detector_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/containerruntime"
	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/criserver"
	"github.com/nodemend/nodemend/test/loopback"
)

func TestMain(m *testing.M) { os.Exit(clustertest.RunTogether(m)) }

// patience bounds every wait: only what hangs needs it.
const patience = 5 * time.Minute

// scene is one Node with a container runtime.
type scene struct {
	name     string
	nodes    corev1client.NodeInterface
	runtime  *criserver.Server
	settings config.Config
}

func newScene(t *testing.T, name string) *scene {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	runtime, err := criserver.Start(t.Context(), socket, criserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	client, err := corev1client.NewForConfig(clustertest.Shared(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	settings.Heartbeat.Interval.Duration = time.Second
	settings.Heartbeat.ProblemInterval.Duration = time.Second
	settings.StateFile, settings.Socket = "", ""
	settings.Checks.Only = []string{"runtime"}
	r := &settings.Checks.Runtime
	r.Endpoint = "unix://" + socket
	r.Interval.Duration, r.Timeout.Duration, r.StartupGrace.Duration = 200*time.Millisecond, 2*time.Second, 0
	r.FailureThreshold, r.SuccessThreshold = 1, 1
	return &scene{name: name, nodes: client.Nodes(), runtime: runtime, settings: settings}
}

// create makes the Node with these conditions.
func (s *scene) create(t *testing.T, conditions ...corev1.NodeCondition) {
	t.Helper()
	node, err := s.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(conditions) == 0 {
		return // a detector that runs may have written some already
	}
	node.Status.Conditions = conditions
	if _, err := s.nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// detect runs a detector until the returned function is called.
func (s *scene) detect(t *testing.T, client *rest.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() {
		ended <- detector.Run(ctx, detector.Options{NodeName: s.name, Config: s.settings, Client: client})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// condition returns the detector's condition; empty if the Node lacks it.
func (s *scene) condition(ctx context.Context) func() (corev1.NodeCondition, error) {
	return func() (corev1.NodeCondition, error) {
		node, err := s.nodes.Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return corev1.NodeCondition{}, err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == containerruntime.ConditionType {
				return c, nil
			}
		}
		return corev1.NodeCondition{}, nil
	}
}

func haveStatus(status corev1.ConditionStatus) func(corev1.NodeCondition) bool {
	return func(c corev1.NodeCondition) bool { return c.Status == status }
}

func ago(d time.Duration) metav1.Time {
	return metav1.NewTime(time.Now().Add(-d).Truncate(time.Second))
}

func TestARestartDuringAProblemChangesNeitherStatusNorTransition(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "restart")
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: ago(time.Minute), LastTransitionTime: ago(time.Hour),
	}
	stored := corev1.NodeCondition{
		Type: containerruntime.ConditionType, Status: corev1.ConditionTrue, Reason: containerruntime.ReasonTimeout,
		LastHeartbeatTime: ago(time.Minute), LastTransitionTime: ago(time.Hour),
	}
	s.create(t, ready, stored)
	s.runtime.Hang()

	watch, err := s.nodes.Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: s.name}))
	g.Expect(err).NotTo(HaveOccurred())
	defer watch.Stop()
	for range 2 {
		started := time.Now().Truncate(time.Second)
		stop := s.detect(t, clustertest.Shared(t).Config)
		g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(func(c corev1.NodeCondition) bool {
			return !c.LastHeartbeatTime.Time.Before(started) && haveStatus(corev1.ConditionTrue)(c)
		}), "the problem is confirmed by the detector that has just started")
		stop()
	}

	// Every state that the Node went through, up to one that ends the test.
	_, err = s.nodes.Patch(t.Context(), s.name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for event := range watch.ResultChan() {
		node := event.Object.(*corev1.Node)
		for _, c := range node.Status.Conditions {
			switch c.Type {
			case stored.Type:
				if c.Status != stored.Status || !c.LastTransitionTime.Equal(&stored.LastTransitionTime) {
					t.Errorf("the condition became %s since %s, want %s since %s", c.Status, c.LastTransitionTime, stored.Status, stored.LastTransitionTime)
				}
			case ready.Type:
				if diff := cmp.Diff(ready, c); diff != "" {
					t.Errorf("the kubelet's condition has changed (-was +is):\n%s", diff)
				}
			}
		}
		g.Expect(node.Status.Conditions).To(HaveLen(2))
		if node.Spec.Unschedulable {
			break
		}
	}
}

func TestAnAPIServerThatIsReachedLateGetsTheTimeOfTheObservation(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "late")
	s.create(t)
	s.runtime.NotReady("Broken")

	// An address at which nobody listens yet.
	address := loopback.Address(t)
	direct, err := url.Parse(clustertest.Shared(t).Config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	client := rest.CopyConfig(clustertest.Shared(t).Config)
	client.Host = "https://" + address

	s.detect(t, client)
	g.Consistently(s.condition(t.Context()), 3*time.Second).Should(BeZero())
	opened := time.Now()
	clustertest.Forward(t, address, direct.Host)
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionTrue)))
	c, err := s.condition(t.Context())()
	g.Expect(err).NotTo(HaveOccurred())
	if age := opened.Sub(c.LastTransitionTime.Time); age < 2*time.Second {
		t.Errorf("lastTransitionTime is %s before the API server was reached, want the time of the first run", age)
	}
}

func TestANodeThatIsRegisteredLateOrAnewGetsTheCondition(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "recreated")
	s.detect(t, clustertest.Shared(t).Config)

	s.create(t)
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionFalse)))
	first, err := s.condition(t.Context())()
	g.Expect(err).NotTo(HaveOccurred())

	// Delete and create in one go: the detector sees no absence, only another UID.
	g.Expect(s.nodes.Delete(t.Context(), s.name, metav1.DeleteOptions{})).To(Succeed())
	s.create(t)
	g.Eventually(s.condition(t.Context()), patience).Should(Satisfy(haveStatus(corev1.ConditionFalse)))
	second, err := s.condition(t.Context())()
	g.Expect(err).NotTo(HaveOccurred())
	if !second.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("the new Node has the condition since %s, want %s: nothing has changed on the machine", second.LastTransitionTime, first.LastTransitionTime)
	}
}

// A patch with the UID of a former Node must be refused, since the transition
// times in it belong to that one.
func TestTheAPIServerRefusesAPatchForAFormerNode(t *testing.T) {
	g := NewWithT(t)
	s := newScene(t, "former")
	s.create(t)
	_, err := s.nodes.Patch(t.Context(), s.name, types.StrategicMergePatchType,
		[]byte(`{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"},"status":{"conditions":[{"type":"X","status":"True"}]}}`),
		metav1.PatchOptions{}, "status")
	g.Expect(err).To(Satisfy(apierrors.IsInvalid))
}
