//go:build integration

package runner_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// patience bounds every wait: only what hangs needs it.
const patience = 5 * time.Minute

const fault = "RuntimeUnhealthy"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // of the tests' own client
	if role := os.Getenv(crashRunnerEnv); role != "" {
		os.Exit(runCrashRunner(role))
	}
	if role := os.Getenv(remoteRunnerEnv); role != "" {
		os.Exit(runRemoteRunner(role))
	}
	systemdtest.Beside()
	os.Exit(systemdtest.Run(tests(func() int {
		return clustertest.RunTogether(m)
	})))
}

type tests func() int

func (t tests) Run() int { return t() }

// fixture is a sick node of its own, and a policy whose only step appends a
// line to a file.
type fixture struct {
	testing.TB
	ctx     context.Context
	cluster *cluster.Cluster
	config  *rest.Config
	client  client.WithWatch
	node    *corev1.Node
	policy  *v1alpha1.RemedyPolicy
	dir     string

	processes []*run
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	return newFixtureOn(t, clustertest.Shared(t), patience)
}

// newFixtureOn makes a fixture on a cluster, for a test that takes so long at most.
func newFixtureOn(t testing.TB, c *cluster.Cluster, patience time.Duration) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)

	scheme := runtime.NewScheme()
	f := &fixture{TB: t, ctx: ctx, cluster: c, config: c.Config, dir: t.TempDir()}
	f.must(errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	var err error
	f.client, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme})
	f.must(err)

	name := "node-" + utilrand.String(8)
	f.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.must(f.client.Create(ctx, f.node))
	f.setFault(corev1.ConditionTrue)
	f.policy = f.newPolicy(f.appends("executed"))
	return f
}

// newPolicy creates a policy for the fault with these scripts as its steps.
func (f *fixture) newPolicy(scripts ...string) *v1alpha1.RemedyPolicy {
	f.Helper()
	policy := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-" + utilrand.String(8)},
		Spec:       v1alpha1.RemedyPolicySpec{Match: []v1alpha1.ConditionMatch{{Type: fault, Status: corev1.ConditionTrue}}},
	}
	for _, script := range scripts {
		policy.Spec.Steps = append(policy.Spec.Steps, v1alpha1.Step{
			Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/sh", "-c", script}},
		})
	}
	f.must(f.client.Create(f.ctx, policy))
	return policy
}

func (f *fixture) setFault(status corev1.ConditionStatus) {
	f.Helper()
	f.node.Status.Conditions = []corev1.NodeCondition{{Type: fault, Status: status}}
	f.must(f.client.Status().Update(f.ctx, f.node))
}

// newAction creates an action for a step of the policy, counted from 0, after
// the changes.
func (f *fixture) newAction(step int, changes ...func(*v1alpha1.NodeAction)) *v1alpha1.NodeAction {
	f.Helper()
	hash, err := f.policy.Spec.Steps[step].Hash()
	f.must(err)
	action := &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "action-" + utilrand.String(8)},
		Spec: v1alpha1.NodeActionSpec{
			NodeName:  f.node.Name,
			NodeUID:   f.node.UID,
			Policy:    v1alpha1.PolicyReference{Name: f.policy.Name, UID: f.policy.UID},
			StepHash:  hash,
			Step:      int32(step + 1),
			Attempt:   1,
			ExpiresAt: metav1.NewTime(time.Now().Add(time.Hour)),
		},
	}
	for _, change := range changes {
		change(action)
	}
	remediation := f.newRemediation(action.Name)
	action.Spec.Remediation, action.Spec.RemediationUID = remediation.Name, remediation.UID
	f.must(f.client.Create(f.ctx, action))
	return action
}

// newRemediation creates one that waits for the action of this name, as a controller
// does before it creates the action.
func (f *fixture) newRemediation(action string) *v1alpha1.Remediation {
	f.Helper()
	r := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "remediation-" + utilrand.String(8)},
		Spec: v1alpha1.RemediationSpec{
			NodeName: f.node.Name, NodeUID: f.node.UID,
			Policy:  v1alpha1.PolicyReference{Name: f.policy.Name, UID: f.policy.UID},
			Trigger: v1alpha1.Trigger{Type: fault, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
			Match:   f.policy.Spec.Match, Steps: f.policy.Spec.Steps,
		},
	}
	f.must(f.client.Create(f.ctx, r))
	r.Status.Action = action
	f.must(f.client.Status().Update(f.ctx, r))
	return r
}

// appends is a script that records its execution as a line.
func (f *fixture) appends(line string) string {
	return "echo " + line + " >>" + filepath.Join(f.dir, "executions")
}

// executions returns the recorded lines, sorted.
func (f *fixture) executions() []string {
	f.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "executions"))
	if !errors.Is(err, fs.ErrNotExist) {
		f.must(err)
	}
	lines := strings.Fields(string(data))
	slices.Sort(lines)
	return lines
}

// awaitExecutions waits until there are so many executions.
func (f *fixture) awaitExecutions(count int) {
	f.Helper()
	f.must(waitFor(f, func() bool { return len(f.executions()) >= count }))
}

// waitFor waits until something is so.
func waitFor(f *fixture, so func() bool) error {
	return wait.PollUntilContextCancel(f.ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return so(), nil })
}

// expect waits for the end of the action, and checks it and the number of
// executions so far.
func (f *fixture) expect(action *v1alpha1.NodeAction, reason string, executions int) *v1alpha1.NodeAction {
	f.Helper()
	ended := f.finished(action)
	if c := ended.Finished(); c.Reason != reason {
		f.Errorf("the action ended as %s (%s), want %s", c.Reason, c.Message, reason)
	}
	if got := f.executions(); len(got) != executions {
		f.Errorf("executed %d times (%v), want %d", len(got), got, executions)
	}
	return ended
}

// finished waits for the end of the action.
func (f *fixture) finished(action *v1alpha1.NodeAction) *v1alpha1.NodeAction {
	f.Helper()
	return f.await(action, func(a *v1alpha1.NodeAction) bool { return a.Finished() != nil })
}

// await waits until the action is as wanted.
func (f *fixture) await(action *v1alpha1.NodeAction, wanted func(*v1alpha1.NodeAction) bool) *v1alpha1.NodeAction {
	f.Helper()
	w, err := f.client.Watch(f.ctx, &v1alpha1.NodeActionList{}, client.MatchingFields{"metadata.name": action.Name})
	f.must(err)
	defer w.Stop()
	for event := range w.ResultChan() {
		if a, ok := event.Object.(*v1alpha1.NodeAction); ok && wanted(a) {
			return a
		}
	}
	f.Fatalf("action %s did not become as wanted: %v", action.Name, f.ctx.Err())
	return nil
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// run is a runner that plays a process of its own.
type run struct {
	registry *prometheus.Registry
	// cancel asks it to stop; done is closed when it has.
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// stop stops the runner and waits for its end.
func (p *run) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// start starts a runner for the fixture's node, whose requests pass through
// the wrapper, if any. It is stopped with the test at the latest. Commands are its
// children, so that any user can run these tests.
func (f *fixture) start(wrapper transport.WrapperFunc, changes ...func(*runner.Options)) *run {
	f.Helper()
	return f.startWithin(f.ctx, wrapper, changes...)
}

func (f *fixture) startWithin(ctx context.Context, wrapper transport.WrapperFunc, changes ...func(*runner.Options)) *run {
	f.Helper()
	ctx, cancel := context.WithCancel(ctx)
	p := &run{registry: prometheus.NewRegistry(), cancel: cancel, done: make(chan struct{})}
	config := rest.CopyConfig(f.config)
	if wrapper != nil {
		config.Wrap(wrapper)
	}
	proc, err := process.OwnProc(f.dir)
	f.must(err)
	opts := runner.Options{
		NodeName:       f.node.Name,
		Proc:           proc,
		Execution:      command.Direct,
		RunDir:         filepath.Join(f.dir, "run"),
		SysRqPath:      filepath.Join(f.dir, "sysrq"),
		Systemd:        &systemd.Dialer{},
		DetectorSocket: filepath.Join(f.dir, "detector.sock"),
		Registry:       p.registry,
	}
	for _, change := range changes {
		change(&opts)
	}
	go func() {
		defer close(p.done)
		p.err = runner.Run(ctx, config, opts)
	}()
	f.processes = append(f.processes, p)
	f.Cleanup(func() {
		if err := p.stop(); err != nil {
			f.Errorf("runner: %v", err)
		}
	})
	return p
}

// owned returns an option by which the node has a root directory of its own, and what
// writes its owner's file there.
func (f *fixture) owned() (option func(*runner.Options), write func(content string) error) {
	f.Helper()
	host := filepath.Join(f.dir, "host")
	file := filepath.Join(host, runnerconfig.Path)
	for _, dir := range []string{host, filepath.Dir(filepath.Dir(file)), filepath.Dir(file)} {
		f.must(os.Mkdir(dir, 0o755))
	}
	return func(o *runner.Options) { o.HostRoot = host }, func(content string) error { return os.WriteFile(file, []byte(content), 0o600) }
}

// stopAll stops all runners and waits for their ends.
func (f *fixture) stopAll() {
	f.Helper()
	for _, p := range f.processes {
		f.must(p.stop())
	}
}
