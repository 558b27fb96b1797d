//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/process"
)

const (
	// patience bounds every wait: only what hangs needs it.
	patience = 10 * time.Minute
	poll     = 200 * time.Millisecond

	// sick is the condition of scenes whose detector is played by the test.
	sick = "Sick"
)

// scene is a node with a budget and a policy of its own. Scenes share the API
// server, so a controller of one sees the objects of those before it; each
// scene ends by deleting its objects.
type scene struct {
	*WithT
	t      testing.TB
	ctx    context.Context
	cfg    *rest.Config
	client client.WithWatch
	name   string
	nodes  []string
	dir    string

	// mine is nil, or of the scene alone; see newSceneApart.
	mine client.MatchingLabels
	// bus of the systemd that the runners use; "": none.
	bus string
}

// newScene creates the nodes <name>-0 … and a budget for them.
func newScene(t testing.TB, name string, nodes int, maxConcurrent string) *scene {
	t.Helper()
	c := clustertest.Shared(t)
	s := &scene{WithT: NewWithT(t), t: t, ctx: t.Context(), cfg: c.Config, name: name, dir: t.TempDir()}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(poll)

	scheme := runtime.NewScheme()
	s.Expect(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))).To(Succeed())
	var err error
	s.client, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme})
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(s.cleanUp)

	for i := range nodes {
		node := fmt.Sprintf("%s-%d", name, i)
		s.nodes = append(s.nodes, node)
		s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: s.labels()}})
	}
	limit := intstr.Parse(maxConcurrent)
	s.create(&v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()},
		Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: s.selector(), MaxConcurrent: &limit},
	})
	return s
}

// cleanUp deletes all objects of the scene, and unless it is one apart, all that
// there are. No controller of it runs any more, so nothing waits for a deletion.
func (s *scene) cleanUp() {
	ctx := context.WithoutCancel(s.ctx)
	var remediations v1alpha1.RemediationList
	if err := s.client.List(ctx, &remediations, s.mine); err != nil {
		s.t.Errorf("cleaning up: %v", err)
	}
	for i := range remediations.Items {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(s.client.Patch(ctx, &remediations.Items[i], free)); err != nil {
			s.t.Errorf("cleaning up: %v", err)
		}
	}
	var maintenances v1alpha1.NodeMaintenanceList
	if err := s.client.List(ctx, &maintenances, s.mine); err != nil {
		s.t.Errorf("cleaning up: %v", err)
	}
	for i := range maintenances.Items {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(s.client.Patch(ctx, &maintenances.Items[i], free)); err != nil {
			s.t.Errorf("cleaning up: %v", err)
		}
	}
	everything := []client.Object{&v1alpha1.RemedyPolicy{}, &v1alpha1.Remediation{}, &v1alpha1.NodeAction{}, &v1alpha1.NodeMaintenance{}, &v1alpha1.RemediationBudget{}, &corev1.Node{}}
	for _, kind := range everything {
		if err := s.client.DeleteAllOf(ctx, kind, s.mine); err != nil {
			s.t.Errorf("cleaning up: %v", err)
		}
	}
}

func (s *scene) create(obj client.Object) {
	s.t.Helper()
	s.Expect(s.client.Create(s.ctx, obj)).To(Succeed())
}

func (s *scene) labels() map[string]string { return map[string]string{sceneLabel: s.name} }

func (s *scene) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: s.labels()}
}

// policy creates a policy for Sick with these steps.
func (s *scene) policy(steps ...v1alpha1.Step) *v1alpha1.RemedyPolicy {
	s.t.Helper()
	return s.policyFor(sick, steps...)
}

// policyFor creates a policy for a condition, which recovers after a second.
func (s *scene) policyFor(conditionType string, steps ...v1alpha1.Step) *v1alpha1.RemedyPolicy {
	s.t.Helper()
	p := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: s.labels()},
		Spec: v1alpha1.RemedyPolicySpec{
			NodeSelector: s.selector(),
			Match:        []v1alpha1.ConditionMatch{{Type: conditionType, Status: corev1.ConditionTrue}},
			Steps:        steps,
			Recovery:     v1alpha1.Recovery{HealthyFor: duration(time.Second)},
			// The nodes of a scene are new, and incidents follow each other.
			DelayAfterJoin: &v1alpha1.Duration{},
			Cooldown:       &v1alpha1.Duration{},
		},
	}
	s.create(p)
	return p
}

func duration(d time.Duration) v1alpha1.Duration { return v1alpha1.Duration{Duration: d} }

// shell is a step that runs a script and gives it three seconds to show effect.
func shell(script string) v1alpha1.Step {
	return v1alpha1.Step{
		Command:       &v1alpha1.CommandRemedy{Argv: []string{"/bin/sh", "-c", script}},
		Timeout:       duration(20 * time.Second),
		VerifyTimeout: duration(3 * time.Second),
		Attempts:      1,
	}
}

// path returns the path of a file of the scene.
func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// lines counts the lines of a file of the scene: one per execution.
func (s *scene) lines(name string) int {
	data, err := os.ReadFile(s.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	s.Expect(err).NotTo(HaveOccurred())
	return strings.Count(string(data), "\n")
}

// spawn runs a role until the returned function is called, which waits for it;
// the end of the test calls it as well.
func (s *scene) spawn(name string, run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Logf("the %s ended: %v", name, err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

func (s *scene) startController() { s.startControllerOn(s.cfg) }

func (s *scene) startControllerOn(cfg *rest.Config) (stop func()) {
	options := controller.Options{Registry: prometheus.NewRegistry()}
	return s.spawn("controller", func(ctx context.Context) error { return controller.Run(ctx, cfg, options) })
}

// startRunners starts the runner of every node.
func (s *scene) startRunners() {
	proc, err := process.OwnProc(s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, node := range s.nodes {
		dir := s.t.TempDir()
		s.spawn("runner of "+node, func(ctx context.Context) error {
			return runner.Run(ctx, s.cfg, runner.Options{
				NodeName: node, Execution: command.Direct, Proc: proc, RunDir: dir,
				Systemd: &systemd.Dialer{Bus: s.bus}, DetectorSocket: filepath.Join(dir, "detector.sock"),
			})
		})
	}
}

// detect plays the detector of a node: it reports Sick as long as the file
// exists, several times a second, until stopped.
func (s *scene) detect(node, file string) (stop func()) {
	return s.detectBy(node, func() bool { return s.exists(file) })
}

// detectBy is detect with a check of one's own.
func (s *scene) detectBy(node string, isSick func() bool) (stop func()) {
	return s.spawn("detector of "+node, func(ctx context.Context) error {
		status, since := corev1.ConditionUnknown, time.Time{}
		tick := time.NewTicker(400 * time.Millisecond)
		defer tick.Stop()
		for {
			now, seen := time.Now(), corev1.ConditionFalse
			if isSick() {
				seen = corev1.ConditionTrue
			}
			if seen != status {
				status, since = seen, now
			}
			if err := s.report(ctx, node, sick, status, now, since); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// report writes a condition of a node as a detector does.
func (s *scene) report(ctx context.Context, node, conditionType string, status corev1.ConditionStatus, heartbeat, transition time.Time) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeConditionType(conditionType), Status: status, Reason: "Test", Message: "reported by a test",
		LastHeartbeatTime: metav1.NewTime(heartbeat), LastTransitionTime: metav1.NewTime(transition),
	}}}})
	if err != nil {
		return err
	}
	obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return s.client.Status().Patch(ctx, obj, client.RawPatch(types.StrategicMergePatchType, patch))
}

func (s *scene) touch(file string) {
	s.t.Helper()
	s.Expect(os.WriteFile(s.path(file), nil, 0o600)).To(Succeed())
}

func (s *scene) exists(file string) bool {
	_, err := os.Stat(s.path(file))
	return err == nil
}

func (s *scene) remove(file string) {
	s.t.Helper()
	s.Expect(os.Remove(s.path(file))).To(Succeed())
}

// remediations returns those of a node.
func (s *scene) remediations(node string) []v1alpha1.Remediation {
	var list v1alpha1.RemediationList
	s.Expect(s.client.List(s.ctx, &list, client.MatchingFields{"spec.nodeName": node})).To(Succeed())
	return list.Items
}

func (s *scene) actions(node string) []v1alpha1.NodeAction {
	var list v1alpha1.NodeActionList
	s.Expect(s.client.List(s.ctx, &list, client.MatchingFields{"spec.nodeName": node})).To(Succeed())
	return list.Items
}

// state returns "state" or "state/blocked by" of the node's only remediation,
// "" while there is none.
func (s *scene) state(node string) string {
	all := s.remediations(node)
	if len(all) == 0 {
		return ""
	}
	s.Expect(all).To(HaveLen(1), "one incident is one remediation")
	if by := all[0].BlockedBy(); by != "" {
		return all[0].State() + "/" + by
	}
	return all[0].State()
}

// ended returns whether the node's only remediation is over.
func (s *scene) ended(node string) bool {
	all := s.remediations(node)
	return len(all) == 1 && all[0].Ended()
}

// limit returns the number of permits that the budget allows.
func (s *scene) limit() int32 {
	var b v1alpha1.RemediationBudget
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: s.name}, &b)).To(Succeed())
	return ptr.Deref(b.Status.Groups[v1alpha1.UngroupedNodes].Limit, 0)
}

// permits returns the names of the nodes that hold a permit.
func (s *scene) permits() []string {
	var b v1alpha1.RemediationBudget
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: s.name}, &b)).To(Succeed())
	var nodes []string
	for node := range b.Status.Groups[v1alpha1.UngroupedNodes].Permits {
		nodes = append(nodes, node)
	}
	return nodes
}

// append adds a line to a file of the scene.
func (s *scene) append(file string) {
	f, err := os.OpenFile(s.path(file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	s.Expect(err).NotTo(HaveOccurred())
	_, err = f.WriteString("line\n")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(f.Close()).To(Succeed())
}

// label sets the exclude label of a node.
func (s *scene) label(node, value string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.ExcludeLabel, value)
	s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
