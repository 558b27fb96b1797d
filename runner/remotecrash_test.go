//go:build integration

package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/leader"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/process"
)

// remoteRunnerEnv makes the test's program a remote runner, as its JSON value says.
const remoteRunnerEnv = "NODEMEND_TEST_REMOTE_RUNNER"

// remoteRunner is one in a process of its own.
type remoteRunner struct {
	Kubeconfig, Config, Log string
	// Node whose actions it sees: others are for the remote runners of other tests, whose machines
	// have the same systemUUID. Twins has it list all nodes.
	Node  string
	Twins bool
	// Lease is that of the election; "": there is none.
	Lease string
	// Point is where it kills itself; empty: nowhere.
	Point string
}

// runRemoteRunner is the process.
func runRemoteRunner(config string) int {
	err := func() error {
		var r remoteRunner
		if err := json.Unmarshal([]byte(config), &r); err != nil {
			return err
		}
		cfg, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
		if err != nil {
			return err
		}
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyOf{r.Node, r.Twins, next} })
		//nolint:forbidigo // this is a main
		ctx := remedy.WithPoints(context.Background(), func(point string) {
			if point == r.Point {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
				select {} // until it has arrived
			}
		})
		lead := func(ctx context.Context, _ string, lead func(context.Context) error) error { return lead(ctx) }
		if r.Lease != "" {
			lead = func(ctx context.Context, id string, lead func(context.Context) error) error {
				return leader.Election{Name: r.Lease, Namespace: metav1.NamespaceDefault}.Lead(ctx, cfg, id, lead)
			}
		}
		switches, err := remote.Load(r.Config)
		if err != nil {
			return err
		}
		return runner.RunRemote(ctx, cfg, runner.RemoteOptions{
			Lead: lead, Settled: 5 * time.Second, Logger: logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)),
			Needed: func(node *corev1.Node) (*corev1.Node, error) {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, nil
			},
			Switch: func(node *corev1.Node) (power.Switch, error) { return switches.Switch(remote.Node{Name: node.Name}) },
		})
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// onlyOf lets a node and its actions alone be listed and watched.
type onlyOf struct {
	node  string
	twins bool
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o onlyOf) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	selector := query.Get("fieldSelector")
	switch {
	case selector == "spec.executor=Remote":
		selector += ",spec.nodeName=" + o.node
	case request.URL.Path == "/api/v1/nodes" && !o.twins:
		selector = "metadata.name=" + o.node
	default:
		return o.next.RoundTrip(request)
	}
	request = request.Clone(request.Context())
	query.Set("fieldSelector", selector)
	request.URL.RawQuery = query.Encode()
	return o.next.RoundTrip(request)
}

// start starts the process.
func (r remoteRunner) start(f *fixture) *process.Process {
	f.Helper()
	config, err := json.Marshal(r)
	f.must(err)
	log, err := os.OpenFile(r.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	f.must(err)
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: os.Args[:1], Stdout: log, Stderr: log,
		Env: append(os.Environ(), remoteRunnerEnv+"="+string(config)),
	}
	p, err := process.Start(cmd, log)
	f.must(err)
	f.Cleanup(p.Kill)
	return p
}

// machine is what the BMC switches. Its node answers when it has booted.
type machine struct {
	f    *fixture
	mu   sync.Mutex
	on   bool
	boot int
	cuts []int // the boots that were cut
	// switched is called before the BMC can tell anybody that it has.
	switched func(on bool)
}

// PowerOff implements ipmisim.Machine.
func (m *machine) PowerOff(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on {
		m.on, m.cuts = false, append(m.cuts, m.boot)
		m.switched(false)
	}
	return nil
}

// PowerOn implements ipmisim.Machine.
func (m *machine) PowerOn(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on {
		return nil
	}
	m.on, m.boot = true, m.boot+1
	m.switched(true)
	return client.IgnoreNotFound(m.f.says(ctx, fmt.Sprintf("boot-%d", m.boot), corev1.ConditionTrue))
}

// Reset implements ipmisim.Machine. Nobody asks for one.
func (*machine) Reset(context.Context) error { return errors.New("it was reset") }

// PushPowerButton implements ipmisim.Machine. Nobody pushes it.
func (*machine) PushPowerButton(context.Context) error {
	return errors.New("its power button was pushed")
}

func (m *machine) isOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

func (m *machine) cut() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cuts
}

// says has the node say its boot ID, and whether it is Ready.
func (f *fixture) says(ctx context.Context, bootID string, ready corev1.ConditionStatus) error {
	node := &corev1.Node{}
	if err := f.client.Get(ctx, client.ObjectKeyFromObject(f.node), node); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}}
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = bootID, ipmisim.GUID
	return f.client.Status().Patch(ctx, node, client.MergeFrom(before))
}

// newDeadMachine returns a node that does not answer, the machine below it with its BMC, a
// policy, and a remote runner.
func newDeadMachine(t *testing.T) (*fixture, *machine, *ipmisim.Simulator, remoteRunner) {
	t.Helper()
	f := newFixture(t)
	f.node.Spec.Unschedulable = true // as the controller does first
	f.must(f.client.Update(f.ctx, f.node))
	f.must(f.says(f.ctx, "boot-1", corev1.ConditionUnknown))
	f.policy = &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-" + utilrand.String(8)},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: "Ready", Status: corev1.ConditionUnknown}},
			Steps: []v1alpha1.Step{{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}, Timeout: v1alpha1.Duration{Duration: 15 * time.Minute}}},
		},
	}
	f.must(f.client.Create(f.ctx, f.policy))
	sim := ipmisim.Start(t)
	m := &machine{f: f, on: true, boot: 1, switched: func(bool) {}}
	sim.Attach(m)
	host, port := sim.LAN()
	config := filepath.Join(f.dir, "remote.yaml")
	f.must(os.WriteFile(config, fmt.Appendf(nil, "switches:\n- nodes: {names: [%s]}\n  ipmi: {host: %s, port: %d, user: %s, passwordFile: %s}\n",
		f.node.Name, host, port, ipmisim.Operator, sim.PasswordFile()), 0o600))
	return f, m, sim, remoteRunner{Kubeconfig: f.cluster.Kubeconfig, Node: f.node.Name, Config: config, Log: filepath.Join(f.dir, "remote.log")}
}

// remotely makes an action one for the remote runner.
func remotely(a *v1alpha1.NodeAction) {
	a.Spec.Executor, a.Spec.Timeout = v1alpha1.ExecutorRemote, v1alpha1.Duration{Duration: 15 * time.Minute}
	a.Finalizers = []string{v1alpha1.PowerFinalizer}
}

// cycled wants the action to have ended so, and one boot to have been cut.
func (f *fixture) cycled(action *v1alpha1.NodeAction, m *machine, r remoteRunner) {
	f.Helper()
	ended := f.finished(action)
	c := ended.Finished()
	cuts := m.cut()
	if c.Reason != v1alpha1.ReasonSucceeded || ended.Status.Result.BootIDAfter != "boot-2" || len(cuts) != 1 || cuts[0] != 1 {
		f.Errorf("it has ended as %s: %s; cut were %v; the log:\n%s", c.Reason, c.Message, cuts, f.read(r.Log))
	}
	if p := ended.Status.Power; p == nil || p.Proof == nil || p.Proof.BootID != "boot-1" || p.Phase != "Ended" {
		f.Errorf("kept is %+v", p)
	}
	f.Log(c.Message)
}

func TestARemoteRunnerThatIsKilledAtAnyWriteIsFollowedByOneThatGoesOn(t *testing.T) {
	for _, point := range []string{
		"before-claim", "after-claim", "before-Cutting", "after-Cutting", "before-Restoring", "after-Restoring", "before-Ended", "after-Ended", "before-report",
	} {
		t.Run(point, func(t *testing.T) {
			f, m, _, r := newDeadMachine(t)
			r.Point = point
			p := r.start(f)
			action := f.newAction(0, remotely)
			select {
			case <-p.Exited:
			case <-f.ctx.Done():
				f.Fatalf("it did not come to %s; its log: %s", point, f.read(r.Log))
			}
			r.Point = ""
			r.start(f)
			f.cycled(action, m, r)
		})
	}
}

// The action is all that is left to tell of the machine. Its finalizer keeps it, and it has the machine.
func TestARemoteRunnerBringsBackAMachineWhoseNodeAndActionWereDeleted(t *testing.T) {
	f, m, _, r := newDeadMachine(t)
	r.Point = "before-Restoring"
	p := r.start(f)
	action := f.newAction(0, remotely)
	select {
	case <-p.Exited:
	case <-f.ctx.Done():
		f.Fatalf("it was not switched off; its log: %s", f.read(r.Log))
	}
	if m.isOn() {
		t.Fatal("it is on")
	}
	f.must(f.client.Delete(f.ctx, f.node))
	f.must(f.client.Delete(f.ctx, action))
	var kept v1alpha1.NodeAction
	f.must(f.client.Get(f.ctx, client.ObjectKeyFromObject(action), &kept))
	if kept.DeletionTimestamp == nil || kept.Status.Power.Machine != ipmisim.GUID {
		t.Fatalf("kept is %+v", kept)
	}
	r.Point = ""
	r.start(f)
	if err := waitFor(f, m.isOn); err != nil {
		t.Errorf("the machine is left off: %v; the log:\n%s", err, f.read(r.Log))
	}
}

func TestOneOfTwoRemoteRunnersLeadsAndTheOtherFollowsIt(t *testing.T) {
	f, m, _, r := newDeadMachine(t)
	r.Lease = "remote-" + f.node.Name
	r.Point = "after-Cutting"
	first := r.start(f)
	f.must(waitFor(f, func() bool { return strings.Contains(f.read(r.Log), "Remote runner leads") }))
	second := r
	second.Point, second.Log = "", r.Log+".second"
	second.start(f)
	action := f.newAction(0, remotely)
	select {
	case <-first.Exited:
	case <-f.ctx.Done():
		f.Fatal(f.ctx.Err())
	}
	f.cycled(action, m, r)
}

// Sessions are lost, and what was acknowledged to nobody was done.
func TestABMCThatHangsAndRestartsInTheMiddleLosesNoMachine(t *testing.T) {
	for name, when := range map[string]bool{"as it switches off": false, "as it switches on": true} {
		t.Run(name, func(t *testing.T) {
			f, m, sim, r := newDeadMachine(t)
			hangs := make(chan struct{})
			m.switched = func(on bool) {
				if on == when {
					sim.Freeze()
					close(hangs)
				}
			}
			r.start(f)
			action := f.newAction(0, remotely)
			select {
			case <-hangs:
			case <-f.ctx.Done():
				f.Fatalf("nothing is switched; the log: %s", f.read(r.Log))
			}
			sim.Restart()
			f.cycled(action, m, r)
		})
	}
}

func TestTheNodesRunnerLeavesAPowerCycleAlone(t *testing.T) {
	f, m, _, r := newDeadMachine(t)
	f.start(nil)
	action := f.newAction(0, remotely)
	r.start(f)
	f.cycled(action, m, r)
	unsupported := f.newAction(0, func(a *v1alpha1.NodeAction) { a.Spec.Timeout.Duration = time.Minute }) // of a controller that knows no remote runner
	f.must(f.says(f.ctx, "boot-2", corev1.ConditionUnknown))
	if got := f.finished(unsupported).Finished(); got.Reason != v1alpha1.ReasonUnsupported && got.Reason != v1alpha1.ReasonNotNeeded {
		t.Errorf("got %+v", got)
	}
}

func TestARealBMCThatDoesNotTellTheTruthOrNothingLeavesTheNodeAlone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *fixture, sim *ipmisim.Simulator)
		reason string
		twins  bool
	}{
		"off already": {func(_ *fixture, sim *ipmisim.Simulator) { sim.PowerOff() }, v1alpha1.ReasonPowerWasOff, false},
		"two nodes'": {func(f *fixture, _ *ipmisim.Simulator) {
			twin := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node.Name + "-twin"}}
			f.must(f.client.Create(f.ctx, twin))
			f.Cleanup(func() { f.must(f.client.Delete(context.WithoutCancel(f.ctx), twin)) })
			before := twin.DeepCopy()
			twin.Status.NodeInfo.SystemUUID = ipmisim.GUID
			f.must(f.client.Status().Patch(f.ctx, twin, client.MergeFrom(before)))
		}, v1alpha1.ReasonRefused, true},
		"another machine's": {func(f *fixture, _ *ipmisim.Simulator) {
			node := f.node.DeepCopy()
			node.Status.NodeInfo.SystemUUID = "b1234567-89ab-cdef-a123-456789abcdef"
			f.must(f.client.Status().Patch(f.ctx, node, client.MergeFrom(f.node)))
		}, v1alpha1.ReasonRefused, false},
		"a node that answers": {func(f *fixture, _ *ipmisim.Simulator) { f.must(f.says(f.ctx, "boot-1", corev1.ConditionTrue)) }, v1alpha1.ReasonNotNeeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, m, sim, r := newDeadMachine(t)
			test.change(f, sim)
			before := len(m.cut()) // somebody else may have
			r.Twins = test.twins
			r.start(f)
			if got := f.finished(f.newAction(0, remotely)).Finished(); got.Reason != test.reason || len(m.cut()) != before {
				t.Errorf("it has ended as %s: %s; cut were %v", got.Reason, got.Message, m.cut())
			}
		})
	}
}
