//go:build integration

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/leader"
	"github.com/nodemend/nodemend/test/helm"
	"github.com/nodemend/nodemend/test/redfish"
)

// remotely are the values with a remote runner.
var remotely = []string{
	"remoteRunner.enabled=true", "remoteRunner.secrets[0]=bmc", "remoteRunner.config.switches[0].ipmi.host=bmc.example.com",
	"remoteRunner.config.switches[0].ipmi.user=fence", "remoteRunner.config.switches[0].ipmi.passwordFile=/etc/nodemend/bmc/password",
}

// installRemoteRunner applies what the remote runner adds, but its workload.
func (s *scene) installRemoteRunner() {
	s.Helper()
	for _, obj := range rendered(s.T, remotely...) {
		if strings.HasPrefix(obj.GetName(), "nodemend-remote-runner") && obj.GetKind() != "Deployment" {
			s.must(s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
		}
	}
}

// remoteAction is one for the remote runner.
func (s *scene) remoteAction() *v1alpha1.NodeAction {
	s.Helper()
	action := s.actionFor(s.a)
	action.Spec.Executor = v1alpha1.ExecutorRemote
	s.must(s.admin.Create(s.ctx, action))
	return action
}

// in is a phase of a power cycle.
func in(phase string) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		a.Status.Power = &v1alpha1.PowerCycleStatus{RunnerID: "r", Phase: phase}
	}
}

// Who has this token can switch nothing: the logins are in files. It says what was switched.
func TestTheRemoteRunnerWritesForItsActionsAlone(t *testing.T) {
	helm.Program(t)
	s := newScene(t)
	s.installRemoteRunner()
	p := &props{scene: s}
	account := s.account("remote-runner", s.b)
	own := s.client(account)
	unbound, node := s.client(s.bound("remote-runner", nil)), s.client(s.account("runner", s.a))
	fresh, claimed, cut, foreign := s.remoteAction(), s.remoteAction(), s.remoteAction(), s.newAction(s.b)
	s.must(claim(s.ctx, s.admin, claimed))
	s.must(claim(s.ctx, s.admin, cut))
	in("Cutting")(cut)
	s.must(s.admin.Status().Update(s.ctx, cut))
	p.until(func() bool { // rights and policies are in force
		dry := client.NewDryRunClient(own)
		refused, event := dry.Status().Update(s.ctx, with(foreign, claimedAt(0))), dry.Create(s.ctx, remoteEvent("Pod", "any"))
		return refused != nil && strings.Contains(refused.Error(), "the remote runner may not report on") &&
			event != nil && strings.Contains(event.Error(), "about nodes only") && dry.Status().Update(s.ctx, with(fresh, claimedAt(0))) == nil
	})

	write := func(c client.Client, action *v1alpha1.NodeAction, changes ...func(*v1alpha1.NodeAction)) func() error {
		return func() error { return client.NewDryRunClient(c).Status().Update(s.ctx, with(action, changes...)) }
	}
	for what, try := range map[string]func() error{
		"claim":                         write(own, fresh, claimedAt(0)),
		"end without a claim":           write(own, fresh, ended(v1alpha1.ReasonNotNeeded)),
		"look":                          write(own, claimed, in("Looking")),
		"say that power will be cut":    write(own, claimed, in("Cutting")),
		"power that was off":            write(own, claimed, in("Ended"), ended(v1alpha1.ReasonPowerWasOff)),
		"succeed after a cut":           write(own, cut, in("Ended"), result(""), ended(v1alpha1.ReasonSucceeded)),
		"not back after a cut":          write(own, cut, in("Ended"), result(""), ended(v1alpha1.ReasonNotBack)),
		"power still on after a cut":    write(own, cut, in("Ended"), result(""), ended(v1alpha1.ReasonPowerStillOn)),
		"the node's runner, its action": write(node, s.actionA, claimedAt(0)),
		"read a Lease": func() error {
			return client.IgnoreNotFound(own.Get(s.ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: s.a.Name}, lease("any")))
		},
		"an event about a node": func() error { return client.NewDryRunClient(own).Create(s.ctx, remoteEvent("Node", s.a.Name)) },
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const notClaimed = "it had not claimed it before"
	s.refused([]attempt{
		{"claim of a node's action", "the remote runner may not report on NodeAction " + foreign.Name + ": it is for the runner of node " + s.b.Name, write(own, foreign, claimedAt(0))},
		{"claim by a token without a pod", "not bound to a pod", write(unbound, fresh, claimedAt(0))},
		{"claim by the node's runner", "it is for the remote runner", write(node, fresh, claimedAt(0))},
		{"end by the node's runner", "it is for the remote runner", write(node, fresh, ended(v1alpha1.ReasonRefused))},
		{"progress by the node's runner", "it is for the remote runner", write(node, s.actionA, claimedAt(0), in("Looking"))},
		{"late claim", "may not claim a NodeAction after its expiresAt", write(own, fresh, claimedAt(2*time.Hour))},
		{"success without a claim", notClaimed, write(own, fresh, claimedAt(0), result(""), ended(v1alpha1.ReasonSucceeded))},
		{"progress with the claim", notClaimed, write(own, fresh, claimedAt(0), in("Cutting"))},
		{"success without a cut", "it had not said before that it would switch anything", write(own, claimed, ended(v1alpha1.ReasonSucceeded))},
		{"success with the cut", "it had not said before that it would switch anything", write(own, claimed, in("Ended"), ended(v1alpha1.ReasonNotBack))},
		{"loss", "may not end a NodeAction as Lost", write(own, claimed, ended(v1alpha1.ReasonLost))},
		{"an event about a pod", "about nodes only", func() error { return own.Create(s.ctx, remoteEvent("Pod", "any")) }},
		{"an event in another's name", "as nodemend-remote-runner", func() error { return own.Create(s.ctx, eventAbout("Node", s.a.Name)) }},
		{"delete of an action", `cannot delete resource "nodeactions"`, func() error { return own.Delete(s.ctx, fresh.DeepCopy()) }},
		{"taint", `cannot patch resource "nodes"`, func() error {
			return own.Patch(s.ctx, named(s.a.Name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":[]}}`)))
		}},
		{"a secret", `cannot get resource "secrets"`, func() error { return own.Get(s.ctx, key(secret("bmc")), &corev1.Secret{}) }},
		{"another's Lease", `cannot update resource "leases"`, func() error { return own.Update(s.ctx, lease("nodemend-controller")) }},
		{"nodes", `cannot list resource "nodes"`, func() error { return own.List(s.ctx, &corev1.NodeList{}) }},
		{"policies", `cannot list resource "remedypolicies"`, func() error { return own.List(s.ctx, &v1alpha1.RemedyPolicyList{}) }},
		{"pods", `cannot list resource "pods"`, func() error { return own.List(s.ctx, &corev1.PodList{}) }},
	})
	for what, try := range map[string]func() error{ // the rules of the CRD bind everybody
		"a claim never changes":             write(own, claimed, claimedAt(time.Minute)),
		"Unsupported value":                 write(own, claimed, in("Elsewhere")),
		"only what is claimed has progress": write(s.admin, fresh, in("Looking")),
		"a node action's spec never changes": func() error {
			changed := fresh.DeepCopy()
			changed.Spec.Executor = ""
			return s.admin.Update(s.ctx, changed)
		},
	} {
		if err := try(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}

// The BMC and the node are played; all else is real, with the rights that the chart gives.
func TestADeadNodeIsPowerCycledWithTheRightsOfTheRoles(t *testing.T) {
	helm.Program(t)
	s := newScene(t)
	s.installRemoteRunner()
	const machine = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	bmc := redfish.Start(t, &redfish.System{UUID: machine, Power: "On"})
	config := filepath.Join(t.TempDir(), "remote.yaml")
	s.must(os.WriteFile(config, fmt.Appendf(nil, "switches:\n- redfish: {url: %q, user: %s, passwordFile: %s, caFile: %s}\n",
		bmc.URL(), redfish.User, bmc.PasswordFile(), bmc.CAFile()), 0o600))

	says := func(boot string, ready corev1.ConditionStatus) {
		node := s.a.DeepCopy()
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
		node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = boot, machine
		s.must(s.admin.Status().Patch(s.ctx, node, client.MergeFrom(s.a)))
	}
	says("boot-1", corev1.ConditionUnknown)
	s.must(s.admin.Delete(s.ctx, s.actionA))
	dead := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "dead-" + s.policy.Name},
		Spec: v1alpha1.RemedyPolicySpec{
			NodeSelector: s.policy.Spec.NodeSelector,
			Match:        []v1alpha1.ConditionMatch{{Type: "Ready", Status: corev1.ConditionUnknown}},
			Steps: []v1alpha1.Step{{
				Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}, Timeout: v1alpha1.Duration{Duration: 15 * time.Minute}, RequireApproval: true,
			}},
			Recovery:       v1alpha1.Recovery{HealthyFor: v1alpha1.Duration{Duration: time.Second}},
			DelayAfterJoin: &v1alpha1.Duration{},
		},
	}
	s.temporary(dead)
	s.temporary(&v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: dead.Name}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: s.policy.Spec.NodeSelector}})
	s.lead(s.account("controller", s.b))
	s.executeRemotely(s.account("remote-runner", s.b), config)

	remediation := &v1alpha1.Remediation{}
	is := func(what string, so func() bool) {
		t.Helper()
		s.eventually(what, func(ctx context.Context) (bool, error) {
			all := &v1alpha1.RemediationList{}
			err := s.admin.List(ctx, all, client.MatchingFields{"spec.nodeName": s.a.Name})
			for i := range all.Items {
				if all.Items[i].Spec.Policy.UID == dead.UID {
					*remediation = all.Items[i]
				}
			}
			return err == nil && so(), err
		})
	}
	is("a person is to approve", func() bool { return remediation.BlockedBy() == "ApprovalRequired" })
	if calls := bmc.Calls(); len(calls) > 0 || bmc.Power(1) != "On" {
		t.Fatalf("the power is switched before: %v", calls)
	}
	approved := remediation.DeepCopy()
	approved.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "1"}
	s.must(s.admin.Patch(s.ctx, approved, client.MergeFrom(remediation)))
	action := &v1alpha1.NodeAction{}
	is("the power is off and on", func() bool {
		return remediation.Status.Action != "" && s.admin.Get(s.ctx, types.NamespacedName{Name: remediation.Status.Action}, action) == nil &&
			action.Status.Power != nil && action.Status.Power.Phase == "Ended"
	})
	if p := action.Status.Power; p.Outcome != "PowerCycled" || p.Proof == nil || p.Proof.BootID != "boot-1" || bmc.Power(1) != "On" {
		t.Errorf("kept is %+v", p)
	}
	says("boot-2", corev1.ConditionTrue)
	s.temporary(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: s.a.Name}})
	is("the remediation has recovered", func() bool { return remediation.State() == v1alpha1.ReasonRecovered })
	if history := remediation.Status.History; len(history) != 1 || history[0].Outcome != v1alpha1.ReasonSucceeded || !strings.Contains(history[0].Message, "boot-1 -> boot-2") {
		t.Errorf("the history is %+v", history)
	}
}

// executeRemotely runs a remote runner until the test ends.
func (s *scene) executeRemotely(account *rest.Config, config string) {
	s.Helper()
	switches, err := remote.Load(config)
	s.must(err)
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		done <- runner.RunRemote(ctx, account, runner.RemoteOptions{
			Switch: func(node *corev1.Node) (power.Switch, error) { return switches.Switch(remote.Node{Name: node.Name}) },
			Lead: func(ctx context.Context, id string, lead func(context.Context) error) error {
				return leader.Election{Name: "nodemend-remote-runner", Namespace: namespace}.Lead(ctx, account, id, lead)
			},
		})
	}()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
}

// with is an action with another status.
func with(action *v1alpha1.NodeAction, changes ...func(*v1alpha1.NodeAction)) *v1alpha1.NodeAction {
	changed := action.DeepCopy()
	for _, change := range changes {
		change(changed)
	}
	return changed
}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func remoteEvent(kind, name string) *corev1.Event {
	event := eventAbout(kind, name)
	event.GenerateName, event.Name = "", name+"."+utilrand.String(6)
	event.Source.Component = "nodemend-remote-runner"
	return event
}

func TestTheRemoteRunnerIsOffUnlessItIsWanted(t *testing.T) {
	helm.Program(t)
	for _, obj := range rendered(t) {
		if strings.Contains(obj.GetName(), "remote-runner") {
			t.Errorf("there is %s %s", obj.GetKind(), obj.GetName())
		}
	}
	pod, found := pods(t, rendered(t, remotely...))["remote-runner"]
	if !found {
		t.Fatal("there is none")
	}
	c := pod.Containers[0]
	if pod.HostNetwork || pod.HostPID || !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Error("the remote runner has privileges")
	}
	if c.LivenessProbe != nil {
		t.Error("the remote runner may be restarted while power is off")
	}
	mounted := false
	for _, mount := range c.VolumeMounts {
		mounted = mounted || mount.MountPath == "/etc/nodemend/bmc" && mount.ReadOnly
	}
	if !mounted {
		t.Errorf("the Secret is not mounted: %v", c.VolumeMounts)
	}
}
