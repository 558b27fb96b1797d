package apiserver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/test/apiserver"
)

// story is an incident that real programs deal with in virtual time. The test plays the
// kubelet and the detector of the one node.
type story struct {
	*testing.T
	ctx    context.Context
	server *apiserver.Server
	client client.Client
	sick   corev1.ConditionStatus
	since  time.Time
}

func newStory(t *testing.T, definitions *apiserver.Definitions, policies *apiserver.Policies) *story {
	t.Helper()
	s := &story{T: t, ctx: t.Context(), sick: corev1.ConditionFalse, since: time.Now()}
	var err error
	s.server, err = apiserver.New(apiserver.Options{Definitions: definitions, Policies: policies, Now: time.Now})
	s.must(err)
	scheme, err := apiserver.NewScheme()
	s.must(err)
	s.client, err = client.New(s.config(""), client.Options{Scheme: scheme})
	s.must(err)
	return s
}

// config is that of a user.
func (s *story) config(user string) *rest.Config {
	return &rest.Config{Host: "http://simulated", Transport: s.server.Transport(userNamed(user))}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// report writes the node's conditions as its kubelet and its detector do.
func (s *story) report() {
	s.Helper()
	var node corev1.Node
	s.must(s.client.Get(s.ctx, client.ObjectKey{Name: "node-a"}, &node))
	before := node.DeepCopy()
	at, since := metav1.Now(), metav1.NewTime(s.since)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: at, LastTransitionTime: node.CreationTimestamp},
		{Type: "Sick", Status: s.sick, Reason: "Played", LastHeartbeatTime: at, LastTransitionTime: since},
	}
	s.must(s.client.Status().Patch(s.ctx, &node, client.StrategicMergeFrom(before)))
}

// turn changes what the detector sees.
func (s *story) turn(status corev1.ConditionStatus) {
	s.Helper()
	s.sick, s.since = status, time.Now()
	s.report()
}

// until lets time pass, reporting each half a minute, until something holds.
func (s *story) until(what string, holds func() bool) {
	s.Helper()
	for range 60 {
		synctest.Wait()
		if holds() {
			return
		}
		time.Sleep(30 * time.Second) // virtual: the bubble's clock advances
		s.report()
	}
	s.Fatalf("half an hour later: not %s", what)
}

// remediation returns the one there is, nil if there is none.
func (s *story) remediation() *v1alpha1.Remediation {
	s.Helper()
	var list v1alpha1.RemediationList
	s.must(s.client.List(s.ctx, &list))
	if len(list.Items) != 1 {
		return nil
	}
	return &list.Items[0]
}

// start runs a program until the story ends.
func (s *story) start(name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnIncidentIsCarriedFromConditionToRecovery(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile("../../deploy/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := apiserver.DefinePolicies(manifests)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bootID := filepath.Join(dir, "boot_id")
	if err := os.WriteFile(bootID, []byte("11111111-2222-3333-4444-555555555555\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apiserver.Bubble(t, func(t *testing.T) {
		s := newStory(t, definitions, policies)
		s.must(s.client.Create(s.ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-a"},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "11111111-2222-3333-4444-555555555555"}},
		}))
		s.must(s.client.Create(s.ctx, &v1alpha1.RemediationBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(1))},
		}))
		s.must(s.client.Create(s.ctx, &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "sick"}, Spec: v1alpha1.RemedyPolicySpec{
			Match:          []v1alpha1.ConditionMatch{{Type: "Sick", Status: corev1.ConditionTrue, For: v1alpha1.Duration{Duration: time.Minute}}},
			Steps:          []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
			DelayAfterJoin: &v1alpha1.Duration{},
		}}))
		s.report()
		stopController := s.start("controller", func(ctx context.Context) error {
			return controller.Run(ctx, s.config("controller"), controller.Options{Registry: prometheus.NewRegistry()})
		})
		stopRunner := s.start("runner", func(ctx context.Context) error {
			return runner.Run(ctx, s.config("runner@node-a"), runner.Options{
				NodeName: "node-a", DryRun: true, RunDir: filepath.Join(dir, "run"), BootIDPath: bootID,
				HostRoot: "/", DetectorSocket: filepath.Join(dir, "none.sock"),
			})
		})
		time.Sleep(time.Minute) // virtual
		s.turn(corev1.ConditionTrue)
		s.until("answered by the runner", func() bool {
			var actions v1alpha1.NodeActionList
			s.must(s.client.List(s.ctx, &actions))
			return len(actions.Items) == 1 && actions.Items[0].Finished() != nil && actions.Items[0].Finished().Reason == v1alpha1.ReasonDryRun
		})
		s.server.Disconnect() // watches begin anew, and nothing is lost
		s.turn(corev1.ConditionFalse)
		s.until("recovered", func() bool {
			r := s.remediation()
			return r != nil && r.Ended()
		})
		if r := s.remediation(); r.State() != v1alpha1.ReasonRecoveredByItself {
			t.Errorf("the remediation ended as %s: %+v", r.State(), r.Status)
		}
		stopRunner()
		stopController()
	})
}
